"""Prints figures from event logs of keyboards, which hold no text: click-through, recall, latency.

tff-keyboard events logs/*.jsonl
tff-keyboard events logs/*.jsonl --noise-multiplier=2 --clip-norm=2000 --delta=1e-6
tff-keyboard events --replay=keyboard.tflite --store=data/demo --out=logs

There is one log a person, with a line for each strip that was shown (docs/evaluation.md has the
schema). With --noise-multiplier the logs are summed federatedly, each person's counts clipped to
--clip-norm, and only the noisy sums are printed, with their epsilon. --replay writes the logs that
held-out people would have left who typed their text with a model.
"""

import dataclasses
import datetime
import pathlib
import secrets
from typing import Annotated

from ..options import Population, Range, TaskOptions, Words
from tff_keyboard.host import quiet
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    logs: Annotated[tuple[pathlib.Path, ...], Words("logs, one a person", least=0)] = ()
    noise_multiplier: Annotated[
        float, "Standard deviation of the noise / clip norm; 0: no noise, no claim.", Range(0)
    ] = 0.0
    clip_norm: Annotated[float, "L2 bound on one person's counts.", Range(1)] = 2000.0
    delta: Annotated[float, "Delta of the privacy statement.", Range(1e-15, 0.5)] = 1e-6
    replay: Annotated[str | None, "A model, as `compare` takes it, to type the text with."] = None
    store: Annotated[pathlib.Path | None, "With --replay: client store of the text."] = None
    clients: Annotated[Population, "With --replay: the people whose text is typed."] = "held_out"
    people: Annotated[int, "With --replay: the most people to take.", Range(1)] = 20
    out: Annotated[pathlib.Path | None, "With --replay: folder for the logs."] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.logs) == bool(self.replay):
            raise UsageError("Give logs, or --replay=MODEL with --store=DIR and --out=DIR.")
        if self.replay and not (self.store and self.out):
            raise UsageError("--replay needs --store=DIR and --out=DIR.")


def run(options: Options) -> None:
    """Prints figures, or writes logs."""
    if options.replay:
        _replay(options)
        return
    import numpy as np

    from tff_keyboard.evaluation.events import event_counts, event_log
    from tff_keyboard.report import event_text

    counts = np.array([event_counts.count(event_log.read_log(path)) for path in options.logs])
    if not options.noise_multiplier:
        print(event_text.figure_table(counts))
        return
    quiet.import_tensorflow_federated()
    from tff_keyboard.federated.algorithms.private_counts import private_sums
    from tff_keyboard.program.engines import execution

    with execution.install_context():
        released = private_sums(
            list(counts),
            clip_norm=options.clip_norm,
            noise_multiplier=options.noise_multiplier,
            delta=options.delta,
            key=secrets.token_bytes(32),
        )
    print(event_text.private_table(released.sums, epsilon=released.epsilon, delta=released.delta))


def _replay(options: Options) -> None:
    from ..predictors import open_predictors
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.evaluation.counts.typed_text import check_rules
    from tff_keyboard.evaluation.events import event_log, replay
    from tff_keyboard.host.progress import Progress
    from tff_keyboard.storage import files

    assert options.replay and options.store and options.out  # noqa: PT018, checked above
    store = ClientStore(options.store)
    (named,) = open_predictors([options.replay], store)
    check_rules(store, named.predictor.vocabulary.rules)
    people = store.client_ids(options.clients)[: options.people]
    people.sort(key=store.pseudonym)  # numbered as the ids are sorted, a log would name its person
    hour = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H")
    file = pathlib.Path(named.source)
    model = replay.model_digest(
        file.read_bytes() if file.is_file() else named.source.encode()  # a baseline is no file
    )
    files.make_directory(options.out)
    with Progress("replay", total=len(people), unit="people") as line:
        for number, person in enumerate(people):
            messages = store.words(options.clients, person)
            strips = replay.replay(named.predictor, messages, model=model, hour=hour)
            event_log.write_log(options.out / f"{number:05d}.jsonl", strips)
            line.update(number + 1)
    print(f"{len(people)} logs: {options.out}")
