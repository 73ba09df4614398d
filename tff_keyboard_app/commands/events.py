"""Computes click-through rate, impression recall and latency from keyboards' event logs.

tff-keyboard events logs/*.jsonl
tff-keyboard events logs/*.jsonl --noise-multiplier=2 --clip-norm=2000 --delta=1e-6
tff-keyboard events --replay=keyboard.tflite --store=data/demo --out=logs

Each log belongs to one client and has one line for each strip shown. It has no words, but is as
secret as the text: with the model, a reader can compute typed words (docs/evaluation/event_log.md).
With --noise-multiplier the logs are summed with federated aggregation: each client's counts are
clipped to --clip-norm, and only the noisy sums and their epsilon are printed. --replay writes logs:
it types the text of held-out clients with a model.
"""

import dataclasses
import datetime
import hashlib
import pathlib
import secrets
from collections.abc import Sequence
from typing import Annotated

from absl import flags

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError


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
    replay: Annotated[str | None, "Write logs with this model, named as in `compare`."] = None
    store: Annotated[pathlib.Path | None, "With --replay: client store of the text."] = None
    max_clients: Annotated[
        int, "With --replay: maximum number of clients.", flags.IntegerParser(1)
    ] = 20
    out: Annotated[pathlib.Path | None, "With --replay: folder for the logs."] = None

    def __post_init__(self) -> None:
        if bool(self.logs) == bool(self.replay):
            raise UsageError("Pass logs, or --replay=MODEL with --store=DIR and --out=DIR.")
        if self.replay and not (self.store and self.out):
            raise UsageError("--replay requires --store=DIR and --out=DIR.")


def run(options: Options) -> None:
    """Prints the figures, or writes logs."""
    if options.replay:
        _replay(options)
        return
    import numpy as np

    from tff_keyboard_app.events import event_counts, event_log, event_text

    if options.noise_multiplier:
        _check_one_log_each(options.logs)
    counts = np.array([event_counts.count(event_log.read_log(path)) for path in options.logs])
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


def _check_one_log_each(logs: Sequence[pathlib.Path]) -> None:
    """Checks that no log is counted twice, because epsilon is for one log of each client.

    Raises `UsageError` for a repeated path, a link to another log, or a copy of one.
    """
    seen: dict[bytes, pathlib.Path] = {}
    for path in logs:
        try:
            content = path.read_bytes()
        except OSError:
            continue  # reading the log reports this
        content = content or str(path.resolve()).encode()  # several clients may have empty logs
        digest = hashlib.sha256(content).digest()
        if digest in seen:
            raise UsageError(
                f"{seen[digest]} and {path} are the same log. Its client would count twice, and "
                "epsilon is for one log of each client. Pass each log once."
            )
        seen[digest] = path


def _replay(options: Options) -> None:
    from tff_keyboard.command_line.predictors import open_predictors
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation.counts.typed_text import check_rules
    from tff_keyboard.host.progress import Progress
    from tff_keyboard.storage import files
    from tff_keyboard_app.events import event_log, replay

    assert options.replay and options.store and options.out  # noqa: PT018, checked above
    store = ClientStore(options.store)
    (model_to_replay,) = open_predictors([options.replay], store)
    check_rules(store, model_to_replay.predictor.vocabulary.rules)
    clients = store.client_ids("held_out")[: options.max_clients]
    clients.sort(key=store.pseudonym)  # in the order of ids, a log's number would reveal its client
    hour = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H")
    file = pathlib.Path(model_to_replay.source)
    model = replay.model_digest(
        file.read_bytes()
        if file.is_file()
        else model_to_replay.source.encode()  # a baseline is not a file
    )
    files.make_directory(options.out)
    with Progress("replay", total=len(clients), unit="clients") as line:
        for number, client in enumerate(clients):
            messages = store.words("held_out", client)
            strips = replay.replay(model_to_replay.predictor, messages, model=model, hour=hour)
            event_log.write_log(options.out / f"{number:05d}.jsonl", strips)
            line.update(number + 1)
    print(f"Wrote {len(clients)} logs: {options.out}")
