"""Computes click-through rate, impression recall and latency from keyboards' event logs.

tff-keyboard events logs/*.json
tff-keyboard events logs/*.json --noise-multiplier=2 --clip-norm=2000 --delta=1e-6
tff-keyboard events --replay=keyboard.tflite --store=data/demo

Each log belongs to one client and has sums of counts over its messages. With --noise-multiplier the
counts are summed with federated aggregation: each client's counts are clipped to --clip-norm, and
only the noisy sums and their epsilon are printed. --replay needs no logs: it types the text of
held-out clients with a model, and counts their strips.
"""

import dataclasses
import pathlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from absl import flags

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from tff_keyboard_app.events.event_log import EventLog

_MIN_NOISE, _MAX_NOISE = 1e-6, 1e9  # of the accounting, besides 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `events`."""

    logs: Annotated[tuple[pathlib.Path, ...], Positional("event logs, one for each client")] = ()
    noise_multiplier: Annotated[
        float,
        "Standard deviation of the noise / clip norm. 0: no noise and no privacy claim.",
        flags.FloatParser(0),
    ] = 0.0
    clip_norm: Annotated[float, "L2 bound on the counts of one client.", flags.FloatParser(1)] = (
        2000.0
    )
    delta: Annotated[float, "Delta of the privacy statement.", flags.FloatParser(1e-15, 0.5)] = 1e-6
    replay: Annotated[str | None, "Type with this model, named as in `compare`."] = None
    store: Annotated[pathlib.Path | None, "With --replay: client store of the text."] = None
    max_clients: Annotated[
        int, "With --replay: maximum number of clients.", flags.IntegerParser(1)
    ] = 20

    def __post_init__(self) -> None:
        if bool(self.logs) == bool(self.replay) or bool(self.store) != bool(self.replay):
            raise UsageError("Pass logs, or --replay=MODEL with --store=DIR.")
        if 0 < self.noise_multiplier < _MIN_NOISE or self.noise_multiplier > _MAX_NOISE:
            raise UsageError(
                f"--noise-multiplier must be 0, or from {_MIN_NOISE:g} to {_MAX_NOISE:g}, got "
                f"{self.noise_multiplier:g}."
            )


def run(options: Options) -> None:
    """Prints the figures."""
    import numpy as np

    from tff_keyboard_app.events import event_log, event_text

    if options.replay:
        counts = _replay(options)
    else:
        logs = [event_log.read(path) for path in options.logs]
        counts = np.array([log.vector() for log in logs])
        if options.noise_multiplier:
            _check_one_log_each(options.logs, logs)
        else:
            print(event_text.summary(logs))
    if not options.noise_multiplier:
        print(event_text.figure_table(counts))
        return
    quiet.import_tensorflow_federated()
    from tff_keyboard.algorithms.client_packing.local_context import local_context
    from tff_keyboard_app.events.private_counts import private_sums

    local_context()
    released = private_sums(
        list(counts),
        clip_norm=options.clip_norm,
        noise_multiplier=options.noise_multiplier,
        delta=options.delta,
        key=secrets.token_bytes(32),
    )
    print(event_text.private_table(released.sums, epsilon=released.epsilon, delta=released.delta))


def _check_one_log_each(paths: Sequence[pathlib.Path], logs: "Sequence[EventLog]") -> None:
    """Checks that no log is counted twice, because epsilon is for one log of each client.

    Raises `UsageError` for a repeated path, a link to another log, or a copy of one.
    """
    seen: dict[str, pathlib.Path] = {}
    for path, log in zip(paths, logs, strict=True):
        if repr(log) in seen:
            raise UsageError(
                f"{seen[repr(log)]} and {path} are the same log. Its client would count twice, and "
                "epsilon is for one log of each client. Pass each log once."
            )
        seen[repr(log)] = path


def _replay(options: Options) -> "np.ndarray":
    """Returns the counts of held-out clients: [clients, len(COUNTS)]."""
    import numpy as np

    from tff_keyboard.command_line.predictors import open_predictors
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation.counts import typed_text
    from tff_keyboard.host.progress import Progress
    from tff_keyboard_app.events import replay

    assert options.replay and options.store  # noqa: PT018, checked above
    store = ClientStore(options.store)
    (model,) = open_predictors([options.replay], store)
    rules = model.predictor.vocabulary.rules
    text = typed_text.of_population(store, "held_out", rules=rules)
    clients = text.messages[: options.max_clients]
    counts = []
    with Progress("replay", total=len(clients), unit="clients") as line:
        for messages in clients:
            counts.append(replay.replay(model.predictor, messages))
            line.update(len(counts))
    return np.array(counts)
