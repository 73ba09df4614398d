"""A whole secure sum: exact with dropouts at any step, uniform uploads, and rejected messages."""

import dataclasses
import time

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.examples import examples
from tff_keyboard_fleet.tests.wire.secure_sums.secure_round import SETTINGS, Round
from tff_keyboard_fleet.wire.secure_sums.device import Device, add_pair_stream, own_stream
from tff_keyboard_fleet.wire.secure_sums.errors import SecureSumError
from tff_keyboard_fleet.wire.secure_sums.messages import (
    Advert,
    Question,
    Settings,
    sign_confirmation,
    sign_included,
)
from tff_keyboard_fleet.wire.secure_sums.server import Server


def reporting(count=10, **options):
    """Returns a round in which all devices are about to report."""
    actual = Round(count, **options)
    actual.advertise()
    actual.share()
    return actual


def asking(absent=1):
    """Returns a round after the questions. `absent` devices shared but did not report."""
    actual = reporting()
    actual.gone = sorted(actual.devices)[:absent]
    actual.report(actual.gone)
    return actual


@examples(30)
@given(
    lost=st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)),
    bits=st.sampled_from([16, 32, 64]),
    seed=st.integers(0, 1000),
)
def test_sum_is_exact_for_any_dropouts(lost, bits, seed):
    settings = dataclasses.replace(SETTINGS, bits=bits, degree=8, threshold=5)
    secure_round = Round(12, settings=settings, seed=seed)
    names = list(np.random.default_rng(seed).permutation(sorted(secure_round.devices)))
    first, second, third = ([names.pop() for _ in range(count)] for count in lost)
    secure_round.advertise()
    secure_round.share(absent=first)
    secure_round.report(absent=second)
    total = secure_round.unmask(absent=third)
    there = secure_round.devices.keys() - set(first) - set(second)
    assert secure_round.server.reported == there
    np.testing.assert_array_equal(total, secure_round.truth(there))


@pytest.mark.parametrize("size", [9, pytest.param(1_412_250, marks=pytest.mark.slow)])
def test_thirty_devices_of_which_nine_are_lost(size):
    settings = Settings(label=b"r", size=size, bits=32, degree=20, threshold=11)
    secure_round = reporting(30, settings=settings, min_devices=21)
    gone = list(secure_round.devices)[:9]
    start = time.process_time()
    secure_round.report(gone)
    device_seconds = (time.process_time() - start) / 21
    start = time.process_time()
    total = secure_round.unmask()
    print(f"{device_seconds:.2f} s a device, {time.process_time() - start:.1f} s to unmask")
    np.testing.assert_array_equal(total, secure_round.truth(list(secure_round.devices)[9:]))


def test_a_masked_upload_looks_uniform():
    """Chi-square test over bytes, and over the difference of two devices' uploads of zeros."""
    settings = dataclasses.replace(SETTINGS, size=50_000)
    secure_round = reporting(settings=settings)
    for name in secure_round.vectors:
        secure_round.vectors[name] = np.zeros(settings.size, np.int64)
    one, two = (secure_round.masked(name).masked for name in list(secure_round.devices)[:2])
    for words in (one, two, one - two):
        assert stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-6
    plain = secure_round.vectors[next(iter(secure_round.devices))].astype("<u4").view(np.uint8)
    assert stats.chisquare(np.bincount(plain, minlength=256)).pvalue < 1e-6


def test_all_but_one_of_the_others_cannot_unmask_a_device():
    """Without the device's own secret, everything that the server can recover is still uniform."""
    secure_round = reporting(settings=dataclasses.replace(SETTINGS, size=50_000))
    name = next(iter(secure_round.devices))
    rest = secure_round.masked(name).masked - secure_round.truth([name])
    device = secure_round.devices[name]
    for other in device._received:
        advert = device._neighbours[other]
        add_pair_stream(rest, secure_round.settings, device._mask, advert.mask, name > other)
    np.testing.assert_array_equal(rest, own_stream(secure_round.settings, device._own_secret))
    assert stats.chisquare(np.bincount(rest.view(np.uint8), minlength=256)).pvalue > 1e-6


def test_a_server_gets_no_second_kind_of_share():
    secure_round = asking()
    secure_round.confirm()
    name, question = next((n, q) for n, q in secure_round.questions.items() if q.dropped)
    device = secure_round.devices[name]
    confirmed = device.confirm(question)
    assert device.confirm(question) == confirmed  # a lost answer is asked again
    answer = secure_round.reveal(name)
    assert secure_round.reveal(name) == answer
    assert answer.shares.keys() == question.reported.keys() | question.dropped
    moved = next(iter(question.dropped))
    signed = included(
        secure_round, moved, name
    )  # as if the one that dropped out had reported, late
    both = Question(reported={**question.reported, moved: signed}, dropped=question.dropped)
    other = dataclasses.replace(both, dropped=question.dropped - {moved})
    with pytest.raises(SecureSumError, match="named once"):
        device.confirm(both)
    with pytest.raises(SecureSumError, match="only once"):
        device.confirm(other)
    assert secure_round.reveal(name) == answer


def included(secure_round, sender, other):
    """Returns `sender`'s signature that its vector has the mask shared with `other`."""
    adverts = (secure_round.devices[each].advert for each in (sender, other))
    return sign_included(secure_round.keys[sender], secure_round.settings.context, *adverts)


def test_lists_that_do_not_fit_are_refused():
    secure_round = asking()
    name, question = next((n, q) for n, q in secure_round.questions.items() if not q.dropped)
    device = secure_round.devices[name]
    some = sorted(question.reported)
    signed = {x: included(secure_round, x, name) for x in [*some, name]} | {b"stranger": b""}
    for reported, dropped, message in (
        (some[1:], [], "named once"),
        ([*some, name], [], "named once"),
        ([*some, b"stranger"], [], "named once"),
        (some[:3], some[3:], "Too few neighbours reported: 3 of 4"),
    ):
        questions = Question(reported={x: signed[x] for x in reported}, dropped=frozenset(dropped))
        with pytest.raises(SecureSumError, match=message):
            device.confirm(questions)
    with pytest.raises(SecureSumError, match="named once"):
        secure_round.devices[secure_round.gone[0]].confirm(question)  # it has not reported


def test_a_pair_counts_as_reported_by_its_own_signature_alone():
    secure_round = asking()
    name, question = next((n, q) for n, q in secure_round.questions.items() if q.dropped)
    device, (dropped, *_) = secure_round.devices[name], question.dropped
    other = next(iter(question.reported))
    again = Device(SETTINGS, secure_round.keys[dropped])  # the same device, begun anew: fresh keys
    key, context = secure_round.keys[dropped], SETTINGS.context
    next_sum = dataclasses.replace(SETTINGS, label=b"run 2").context
    mine, his = device.advert, secure_round.devices[dropped].advert
    for signature in (
        b"",
        question.reported[other],
        sign_included(secure_round.keys[other], context, his, mine),  # by another device
        sign_included(key, context, mine, his),  # the other way round
        sign_included(key, context, again.advert, mine),
        sign_included(key, context, his, again.advert),
        sign_included(key, next_sum, his, mine),
        sign_confirmation(key, context, his, mine),
    ):
        questions = Question(
            reported=question.reported | {dropped: signature},
            dropped=question.dropped - {dropped},
        )
        with pytest.raises(SecureSumError, match="did not sign that it reported"):
            device.confirm(questions)
    assert device.confirm(question)


def test_shares_are_revealed_to_enough_confirmations_alone():
    secure_round = asking()
    name, question = next((n, q) for n, q in secure_round.questions.items() if not q.dropped)
    device = secure_round.devices[name]
    secure_round.confirm(absent=[name])
    signed = secure_round.server.confirmations(name)
    with pytest.raises(SecureSumError, match="confirmed that this device reported: 6 of 4"):
        device.unmask(signed)  # it has confirmed nothing itself
    device.confirm(question)
    few = dict(sorted(signed.items())[:3])
    (fourth, signature), *_ = signed.items() - few.items()
    stranger = next(
        iter(
            secure_round.devices.keys() - {x.device for x in secure_round.neighbours[name]} - {name}
        )
    )
    context, advert = SETTINGS.context, device.advert
    wrong = (
        {fourth: signed[min(few)]},
        {
            fourth: sign_included(
                secure_round.keys[fourth], context, secure_round.devices[fourth].advert, advert
            )
        },
        {stranger: confirmation(secure_round, stranger, name)},
        {name: confirmation(secure_round, name, name)},
    )
    for more in ({}, *wrong):
        with pytest.raises(SecureSumError, match="confirmed that this device reported: 3 of 4"):
            device.unmask(few | more)
    assert device.unmask(few | {fourth: signature}) == device.unmask(signed)


def confirmation(secure_round, signer, about):
    adverts = (secure_round.devices[each].advert for each in (signer, about))
    return sign_confirmation(secure_round.keys[signer], SETTINGS.context, *adverts)


def test_the_server_takes_no_signature_that_others_would_refuse():
    secure_round = reporting()
    name, other = list(secure_round.devices)[:2]
    report, foreign = secure_round.masked(name), secure_round.masked(other)
    pair = next(iter(report.included))
    for signatures in (
        {pair: b"x" * 64},
        {pair: next(iter(foreign.included.values()))},
        {name: b"x" * 64},
    ):
        forged = dataclasses.replace(report, included=report.included | signatures)
        with pytest.raises(SecureSumError, match="needs a signature for each pair in its vector"):
            secure_round.server.report(forged)
    few = {x: report.included[x] for x in report.included if x != pair}
    with pytest.raises(SecureSumError, match="needs a signature for each pair in its vector"):
        secure_round.server.report(dataclasses.replace(report, included=few))
    secure_round.server.report(report)
    secure_round.server.report(foreign)
    secure_round.report(absent=[name, other])
    secure_round.confirm(absent=[name])
    confirmed = secure_round.devices[name].confirm(secure_round.questions[name])
    for signatures in ({pair: b"x" * 64}, {name: b""}):
        forged = dataclasses.replace(confirmed, signatures=confirmed.signatures | signatures)
        with pytest.raises(SecureSumError, match="needs a signature for each pair that reported"):
            secure_round.server.confirm(forged)
    np.testing.assert_array_equal(secure_round.unmask(), secure_round.truth(secure_round.devices))


def test_neighbours_that_are_not_devices_are_refused():
    secure_round = Round()
    secure_round.advertise()
    name, near = next(iter(secure_round.neighbours.items()))
    device = secure_round.devices[name]
    stranger = Device(dataclasses.replace(SETTINGS, label=b"run 2"), Ed25519PrivateKey.generate())
    forged = dataclasses.replace(near[0], mask=near[1].channel[::-1])
    for adverts, message in (
        (near[1:], "needs 6 neighbours"),
        ([near[1], *near[1:]], "all different"),
        ([device.advert, *near[1:]], "all different"),
        ([dataclasses.replace(near[0], mask=near[1].mask), *near[1:]], "all different"),
        ([forged, *near[1:]], "not signed"),
        ([stranger.advert, *near[1:]], "not signed"),  # an advert of another round
    ):
        with pytest.raises(SecureSumError, match=message):
            device.share(adverts)
    picky = Device(SETTINGS, Ed25519PrivateKey.generate(), lambda device: device != near[0].device)
    with pytest.raises(SecureSumError, match="known device"):
        picky.share(near)
    device.share(near)
    with pytest.raises(SecureSumError, match="asked again"):
        device.share(near)


@pytest.mark.parametrize(
    "copied",
    [("channel", "channel"), ("mask", "mask"), ("mask", "channel"), ("channel", "device")],
    ids="-".join,
)
def test_copied_keys_only_harm_the_sender(copied):
    key, of_victim = copied
    secure_round = Round(11)
    (hostile, mine), (_, victim) = list(secure_round.devices.items())[:2]
    context = secure_round.settings.context
    keys = {"channel": mine.advert.channel, "mask": mine.advert.mask}
    seen = Advert.signed(
        secure_round.keys[hostile], context, **keys | {key: getattr(victim.advert, of_victim)}
    )
    for name in secure_round.devices.keys() - {hostile}:
        secure_round.server.advertise(secure_round.devices[name].advert)
    twice = Advert.signed(secure_round.keys[hostile], context, **dict.fromkeys(keys, keys["mask"]))
    its_name = Advert.signed(secure_round.keys[hostile], context, **keys | {key: hostile})
    for advert in (seen, twice, its_name):
        with pytest.raises(SecureSumError, match="a duplicate key, or a key of another device"):
            secure_round.server.advertise(advert)
    secure_round.neighbours = secure_round.server.neighbours()
    secure_round.share(absent=[hostile])
    secure_round.report()
    np.testing.assert_array_equal(
        secure_round.unmask(), secure_round.truth(secure_round.devices.keys() - {hostile})
    )


def test_victims_name_as_a_key_only_harms_the_sender():
    secure_round = Round()
    hostile, victim = list(secure_round.devices)[:2]
    mine = secure_round.devices[hostile]
    mine.advert = Advert.signed(
        secure_round.keys[hostile], SETTINGS.context, channel=victim, mask=mine.advert.mask
    )
    secure_round.advertise()  # before the victim, whose Ed25519 key is known from an earlier sum
    secure_round.share(absent=[hostile])
    secure_round.report()
    np.testing.assert_array_equal(
        secure_round.unmask(), secure_round.truth(secure_round.devices.keys() - {hostile})
    )


@pytest.mark.parametrize(
    ("reported", "others", "are_silent", "is_false"),
    [
        (6, 2, False, False),
        (6, 3, False, True),
        (6, 3, True, False),
        (5, 1, False, False),
        (5, 2, False, True),
    ],
)
def test_dealers_that_too_many_leave_out_are_false(reported, others, are_silent, is_false):
    """A dealer is false if fewer than the threshold, 4, shares remain.

    Fewer or silent devices frame no one.
    """
    secure_round = asking()
    framed, _ = next(
        (n, q) for n, q in secure_round.questions.items() if len(q.reported) == reported
    )
    secure_round.confirm()
    for position, name in enumerate(secure_round.questions[framed].reported):
        reveal = secure_round.reveal(name)
        if position < others:
            left = {} if are_silent else reveal.shares.keys() - {framed}
            reveal = dataclasses.replace(reveal, shares={x: reveal.shares[x] for x in left})
        secure_round.server.unmask(reveal)
    assert secure_round.server.false_dealers == ({framed} if is_false else set())


def test_envelopes_of_others_or_too_few_are_refused():
    secure_round = reporting()
    name = next(iter(secure_round.devices))
    device, mine = secure_round.devices[name], secure_round.envelopes[name]
    foreign = dataclasses.replace(mine[0], sender=name)
    for envelopes, message in (
        ([*mine, mine[0]], "one envelope from each"),
        ([*mine[1:], foreign], "from each neighbour"),
        (mine[:3], "Too few neighbours have shared: 3 of 4"),
    ):
        with pytest.raises(SecureSumError, match=message):
            device.report(envelopes, secure_round.vectors[name])
    for vector in (np.zeros(50), np.zeros(49, int)):
        with pytest.raises(ValueError, match="50 integers"):
            device.report(mine, vector)
    device.report(mine, secure_round.vectors[name])
    with pytest.raises(SecureSumError, match="asked again"):
        device.report(mine, secure_round.vectors[name])


def test_a_share_that_was_not_dealt_is_refused_and_the_sum_stands():
    secure_round = asking()
    secure_round.confirm()
    liar = next(iter(secure_round.questions))
    reveal = secure_round.reveal(liar)
    owner, share = next(iter(reveal.shares.items()))
    wrong = dataclasses.replace(reveal, shares={**reveal.shares, owner: share[::-1]})
    with pytest.raises(SecureSumError, match="differs from the one it received"):
        secure_round.server.unmask(wrong)
    stranger = dataclasses.replace(reveal, shares={b"stranger": share})
    with pytest.raises(SecureSumError, match="not its neighbour"):
        secure_round.server.unmask(stranger)
    np.testing.assert_array_equal(
        secure_round.unmask(absent=[liar]), secure_round.truth(secure_round.server.reported)
    )


def test_envelopes_with_other_shares_are_left_out():
    secure_round = reporting()
    name = next(iter(secure_round.devices))
    bad = [
        dataclasses.replace(x, sealed=x.sealed[:-1] + b"x")
        for x in secure_round.envelopes[name][:1]
    ]
    secure_round.envelopes[name] = [*bad, *secure_round.envelopes[name][1:]]
    secure_round.report()
    secure_round.confirm()
    reveal = secure_round.reveal(name)
    assert reveal.shares.keys() == secure_round.questions[name].reported.keys() - {bad[0].sender}
    np.testing.assert_array_equal(secure_round.unmask(), secure_round.truth(secure_round.devices))


def test_a_dealer_of_another_secret_is_named():
    secure_round = Round()
    secure_round.advertise()
    cheat = next(iter(secure_round.devices))
    secure_round.devices[cheat]._own_secret, kept = (
        bytes(32),
        secure_round.devices[cheat]._own_secret,
    )
    for name, device in secure_round.devices.items():
        secure_round.server.share(device.share(secure_round.neighbours[name]))
    secure_round.devices[cheat]._own_secret = kept  # its mask is another than it dealt
    secure_round.server._shares[cheat] = dataclasses.replace(
        secure_round.server._shares[cheat], own_secret=bytes(32)
    )
    secure_round.envelopes = secure_round.server.envelopes()
    secure_round.report()
    with pytest.raises(
        SecureSumError, match=f"{cheat.hex()[:16]} shared a secret that does not match"
    ):
        secure_round.unmask()


def test_too_few_shares_give_no_sum():
    secure_round = asking()
    secure_round.confirm()
    for name in list(secure_round.questions)[6:]:
        secure_round.server.unmask(secure_round.reveal(name))
    assert not secure_round.server.can_sum
    with pytest.raises(SecureSumError, match="shares are available"):
        secure_round.server.sum()


def test_with_too_few_confirmations_a_device_waits():
    secure_round = reporting()
    secure_round.report()
    name, question = next(iter(secure_round.questions.items()))
    near = sorted(question.reported)
    secure_round.confirm(absent=near[:3])
    assert secure_round.server.confirmations(name) is None
    secure_round.server.confirm(
        secure_round.devices[near[0]].confirm(secure_round.questions[near[0]])
    )
    assert secure_round.server.confirmations(name).keys() == {near[0], *near[3:]}
    secure_round.confirm()
    assert secure_round.server.confirmations(name).keys() == set(near)


def test_server_rejects_late_repeated_or_malformed_messages():
    secure_round = reporting(min_devices=8)
    name, other = list(secure_round.devices)[:2]
    server, report = secure_round.server, secure_round.masked(name)
    with pytest.raises(SecureSumError, match="is at step 'report', not 'share'"):
        server.share(server._shares[name])
    for misshapen in (report.masked[1:], report.masked.astype(np.int64)):
        with pytest.raises(SecureSumError, match="needs 50 integers"):
            server.report(dataclasses.replace(report, masked=misshapen))
    server.report(report)
    with pytest.raises(SecureSumError, match="reported before"):
        server.report(report)
    with pytest.raises(SecureSumError, match="has not shared"):
        server.report(dataclasses.replace(report, device=b"stranger"))
    with pytest.raises(SecureSumError, match="needs 8 devices, got 1"):
        server.questions()
    secure_round.report(absent=[name])
    with pytest.raises(SecureSumError, match="is at step 'unmask', not 'report'"):
        server.report(dataclasses.replace(report, device=other))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"threshold": 3}, "<= `degree` = 6"),
        ({"threshold": 7}, "<= `degree` = 6, got 7"),
        ({"bits": 8}, r"`bits` must be one of \(16, 32, 64\), got 8"),
    ],
)
def test_settings_that_would_show_both_secrets_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SETTINGS, **change)


def test_a_sum_of_few_is_refused():
    with pytest.raises(ValueError, match="`min_devices` must be > 6, got 6"):
        Server(SETTINGS, min_devices=6)
