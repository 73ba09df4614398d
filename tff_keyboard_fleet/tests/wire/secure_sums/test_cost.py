"""A sum of 130 devices with the shipped settings: exact with 30 % dropouts, and what a step costs.

# prints the costs
python -m pytest -s -p no:xdist -m slow tff_keyboard_fleet/tests/wire/secure_sums/test_cost.py
"""

import time

import numpy as np
import pytest

from tff_keyboard_fleet.tests.wire.secure_sums.secure_round import Round
from tff_keyboard_fleet.wire import messages, secure_steps
from tff_keyboard_fleet.wire.secure_sums.messages import Settings

COUNT, DEGREE, THRESHOLD = 130, 56, 30
SEAT = "a" * 32


@pytest.mark.parametrize(
    "lost, size", [(39, 5), pytest.param(30, 1_412_250, marks=pytest.mark.slow)]
)
def test_the_shipped_settings_add_up_exactly(lost, size):
    settings = Settings(
        label=b"0123456789abcdef/1/1", size=size, bits=32, degree=DEGREE, threshold=THRESHOLD
    )
    secure_round = Round(COUNT, settings=settings, min_devices=60)
    secure_round.advertise()
    gone = dropouts(secure_round, lost)
    seconds, sizes = {}, {}

    def timed(name, do):
        start = time.process_time()
        found = do()
        seconds[name] = time.process_time() - start
        return found

    timed("all devices and the server: share", secure_round.share)
    there = [name for name in secure_round.devices if name not in gone]
    reports = timed("devices: report", lambda: [secure_round.masked(name) for name in there])
    timed("server: report", lambda: [secure_round.server.report(each) for each in reports])
    sizes["header of the upload"] = [len(messages.encode(header_of(each))) for each in reports]
    questions = secure_round.server.questions()
    sizes["who reported"] = [length(secure_steps.question(each)) for each in questions.values()]
    confirmed = timed(
        "devices: confirm",
        lambda: [secure_round.devices[x].confirm(questions[x]) for x in questions],
    )
    timed("server: confirm", lambda: [secure_round.server.confirm(each) for each in confirmed])
    sizes["confirm"] = [length(secure_steps.confirm(SEAT, each)) for each in confirmed]
    answers = [secure_steps.confirmed(secure_round.server.confirmations(x)) for x in questions]
    sizes["confirmations"] = [length(each) for each in answers]
    reveals = timed("devices: unmask", lambda: [secure_round.reveal(x) for x in questions])
    timed("server: unmask", lambda: [secure_round.server.unmask(each) for each in reveals])
    total = timed("server: sum", secure_round.server.sum)
    np.testing.assert_array_equal(total, secure_round.truth(there))
    for name, found in seconds.items():
        print(f"{name}: {found:.2f} CPU seconds")
    for name, found in sizes.items():
        print(f"{name}: {np.mean(found):,.0f} bytes a device")


def dropouts(secure_round, lost):
    """Returns devices that drop out after they shared.

    Few draws leave a device with too few neighbours.
    """
    rng, names = np.random.default_rng(0), list(secure_round.devices)
    for _ in range(100):
        gone = {names[position] for position in rng.permutation(COUNT)[:lost]}
        left = [
            sum(each.device not in gone for each in near)
            for near in secure_round.neighbours.values()
        ]
        if min(left) >= THRESHOLD:
            return gone
    raise AssertionError("no draw leaves enough")


def header_of(report):
    return messages.UploadHeader(
        assignment=SEAT,
        weight=1.0,
        loss=0.0,
        codec=messages.MASKED,
        shape=[report.masked.size],
        included=secure_steps.in_hex(report.included),
    )


def length(message):
    return len(messages.encode(message))
