"""FedAtt's and FedMed's sweeps: client share, local epochs, step, clients' rate, size, norm.

python -m benchmarks.attention_sweeps --store=data/wikitext2_part/store
    --workdir=runs/sweeps_wikitext2 --out=docs/papers/sweeps_wikitext2.json

A training of a recurrent model takes minutes, and the sweeps are some hundred of them, so the model
is the log-bilinear one of `log_bilinear.py` and the rules are those of `attention_rules.py`: what
is studied is how clients are put together, not the model. Everything else is the papers': clients
of the store, local epochs of SGD, a cohort that is a function of (seed, round) and the same for all
rules, the best round on validation people judged on held-out people. A training ends when its
validation curve is flat, no sooner than --fewest-rounds, when it diverges, or after `rounds`.

A training is a file in the working folder, with its commit and date; stopped, it goes on with those
that are missing. One that could have ended before --fewest-rounds is trained anew. With --table
nothing is trained, and --store only serves to count the words of trainings whose files lack them.
With --as-published all text goes through the loader error of the published FedAtt code, in training
as in evaluation.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import (
    attention_files,
    attention_rules,
    attention_settings,
    attention_table,
    loader_error,
)
from benchmarks import log_bilinear as model
from benchmarks.attention_best_rate import rows_at_best_rate
from benchmarks.attention_progress import FEWEST_ROUNDS, fewest_rounds_of, is_flat
from benchmarks.attention_rules import Rule
from benchmarks.attention_settings import Setting, changed
from benchmarks.step import commit
from tff_keyboard.data.vocabulary import BOS, EOS, OOV
from tff_keyboard.storage import files

CONTROL = Rule(name=attention_settings.CONTROL)
BY_WORDS = Rule(name="fedavg")
FEDATT = Rule(name="fedatt")
FEDMED = Rule(name="fedmed")


def rules_alone() -> list[Setting]:
    """The main table."""
    rules = [
        *(CONTROL, BY_WORDS, FEDATT, FEDMED),
        dataclasses.replace(FEDATT, norm="spectral"),
        dataclasses.replace(FEDATT, temperature=0.1),
        dataclasses.replace(FEDMED, threshold=0.0),
        *(dataclasses.replace(FEDMED, top=top) for top in (0.1, 0.3, 0.5, 0.8, 0.9)),
    ]
    return [*(Setting(rule=rule) for rule in rules), attention_settings.usual("fedsgd")]


SWEEPS: dict[str, Sequence[Any]] = {
    "rate": (0.125, 0.25, 0.5, 1.0),
    "share": (0.3, 0.5, 0.7, 0.9),
    "epochs": (1, 10, 15, 20),  # FedAtt's Figure 3b, FedMed's 6b
    "batch": (20, 30, 40, 50),  # FedAtt's Figure 3c
    "noise": (0.001, 0.005, 0.01, 0.05),  # FedAtt's Table III
    "epsilon": (0.8, 1.0, 1.4),
    "dim": (16, 64),
    "tied": (False,),
}
# FedAtt's grid has sizes tied and untied.
LOW_RATE = [{"share": share, "rate": 0.5} for share in (0.3, 0.5, 0.7, 0.9)]
SIZES_UNTIED: list[dict[str, Any]] = [{"dim": dim, "tied": False} for dim in SWEEPS["dim"]]
# Whether a lead at short steps of the clients is one of longer steps of the server.
LONGER_STEPS: list[dict[str, Any]] = [{"rate": 0.25, "epsilon": 1.4}]


def points() -> list[dict[str, Any]]:
    """What is changed at each point of the sweeps: nothing, one thing, or what goes together."""
    alone = [{key: value} for key, values in SWEEPS.items() for value in values]
    return [{}, *alone, *SIZES_UNTIED, *LONGER_STEPS, *LOW_RATE]


def all_settings() -> list[Setting]:
    """The main table, then the sweeps, the control before what is compared with it."""
    settings = rules_alone()
    for point in points():
        rules = (CONTROL, BY_WORDS, FEDATT) if point.keys() == {"rate"} else (CONTROL, FEDATT)
        if point.keys() <= {"share", "epochs", "batch"}:
            rules = (CONTROL, FEDATT, FEDMED)
        settings += [changed(Setting(rule=rule), **point) for rule in rules]
    return list(dict.fromkeys(settings))


@dataclasses.dataclass(frozen=True)
class Data:
    """Words to predict: of each train client, of all validation clients, of each held-out one."""

    train: Sequence[model.Positions]
    validation: model.Positions
    held_out: Sequence[model.Positions]
    vocabulary: int


def read_data(path: pathlib.Path, words: int, *, as_published: bool = False) -> Data:
    """Of a client store, all of it; rows of its vocabulary behind the first `words` become OOV.

    Args:
      path: Of the store.
      words: Rows of the model.
      as_published: As the loader of the published FedAtt code hands text to the model.
    """
    from tff_keyboard.data.store.client_store import ClientStore

    store = ClientStore(path)
    size = min(len(store.vocabulary.words), words)

    def read(population: str) -> list[model.Positions]:
        texts = [store.examples(population, name) for name in store.client_ids(population)]
        if as_published:
            training = population == "train"
            batch = loader_error.TRAINING_BATCH if training else loader_error.EVALUATION_BATCH
            return [positions_as_published(text, size, batch) for text in texts]
        return [model.positions(text, size, most=10**9) for text in texts]

    together = read("validation")
    validation = model.Positions(
        np.concatenate([each.contexts for each in together]),
        np.concatenate([each.targets for each in together]),
    )
    return Data(read("train"), validation, read("held_out"), size)


def positions_as_published(text: Sequence[np.ndarray], size: int, batch: int) -> model.Positions:
    """What `loader_error.as_published` leaves of messages; their start is a word like any other.

    Args:
      text: Ids of a client's messages.
      size: Rows of the model; other ids become OOV.
      batch: Messages zipped together.
    """
    sentences = [np.concatenate([[BOS], np.where(ids < size, ids, OOV), [EOS]]) for ids in text]
    columns = loader_error.as_published(sentences, batch, np.random.default_rng(0))
    contexts, targets = [np.zeros([0, 2])], [np.zeros([0])]
    for line in columns:
        padded = np.append(BOS, line)
        contexts.append(np.stack([line[:-1], padded[:-2]], axis=1))
        targets.append(line[1:])
    return model.Positions(
        np.concatenate(contexts).astype(np.int32), np.concatenate(targets).astype(np.int32)
    )


def nats(weights: model.Weights, text: model.Positions) -> float:
    """Of all words of a text together."""
    total = 0.0
    for begin in range(0, len(text), 4096):
        part = slice(begin, begin + 4096)
        total += model.loss_of(weights, model.Positions(text.contexts[part], text.targets[part]))
    return total


def train(
    setting: Setting, seed: int, data: Data, fewest_rounds: int = FEWEST_ROUNDS
) -> dict[str, Any]:
    """One training; JSON values.

    Args:
      setting: What is trained.
      seed: Of its cohorts and the weights it begins with.
      data: Of the corpus.
      fewest_rounds: Before which no curve counts as flat.
    """
    begin = time.process_time()
    weights = model.initial_weights(data.vocabulary, setting.dim, seed, is_tied=setting.tied)
    best, best_round, best_weights = float("inf"), 0, weights
    curve, adaptive, effective, loss_before = [], [], [], None
    for number in range(1, setting.rounds + 1):
        chosen, rng = _cohort(seed, number, setting.share, len(data.train))
        results = [_train_client(weights, data.train[i], setting, rng) for i in chosen]
        losses = [loss for _, loss in results]
        words = [float(len(data.train[i])) for i in chosen]
        deltas = [delta for delta, _ in results]
        step = attention_rules.step(setting.rule, weights, deltas, words, losses, loss_before, rng)
        loss_before = float(np.mean(losses))
        weights = [(w + d).astype(np.float32) for w, d in zip(weights, step.deltas, strict=True)]
        adaptive.append(step.adaptive)
        effective.append(step.effective_clients)
        curve.append(float(np.exp(nats(weights, data.validation) / len(data.validation))))
        if curve[-1] < best:
            best, best_round, best_weights = curve[-1], number, weights
        if is_flat(curve, fewest_rounds) or not np.isfinite(curve[-1]):
            break
    found = {
        "setting": dataclasses.asdict(setting),
        "seed": seed,
        "fewest_rounds": fewest_rounds,
        "curve": curve,
        "best_round": best_round,
        "adaptive_rounds": float(np.mean(adaptive)),
        "effective_clients": float(np.mean(effective)),
        "clients": len(chosen),
        "nats": [nats(best_weights, person) for person in data.held_out],
        "words": [len(person) for person in data.held_out],
        "parameters": int(sum(w.size for w in weights)),
        "cpu_seconds": round(time.process_time() - begin, 1),
    }
    return {**found, "tokens": tokens_of(found, data)}


def tokens_of(training: Mapping[str, Any], data: Data) -> int:
    """Words that a training of this data trained on, counted again in each local epoch.

    Raises:
      ValueError: It is of other data.
    """
    if training["words"] != [len(person) for person in data.held_out]:
        raise ValueError("`--store` is not that of these trainings: its held-out people differ.")
    setting, lengths = training["setting"], np.array([len(own) for own in data.train])
    chosen = [
        _cohort(training["seed"], number, setting["share"], len(lengths))[0]
        for number in range(1, len(training["curve"]) + 1)
    ]
    return int(setting["epochs"] * lengths[np.concatenate(chosen)].sum())


def _cohort(
    seed: int, number: int, share: float, clients: int
) -> tuple[np.ndarray, np.random.Generator]:
    """Who is in a round, and the generator that the rest of the round draws from."""
    rng = np.random.default_rng([seed, number])
    return rng.choice(clients, max(1, round(share * clients)), replace=False), rng


def _train_client(
    weights: model.Weights, own: model.Positions, setting: Setting, rng: np.random.Generator
) -> tuple[model.Weights, float]:
    """The delta of local SGD, and the mean loss; FedSGD has one batch, and by default one epoch."""
    order = rng.permutation(len(own))
    text = model.Positions(own.contexts[order], own.targets[order])
    batch = len(own) if setting.rule.name == "fedsgd" else round(attention_settings.WORDS * setting.batch)
    return model.train(
        weights, text, learning_rate=setting.rate, batch_size=batch, epochs=setting.epochs
    )


def train_missing(flags: argparse.Namespace, data: Data) -> None:
    """All trainings that the folder lacks, the first seed of all before the second of any."""
    at_start = commit()  # that of the code in memory
    settings = all_settings()
    if flags.only:
        settings = [each for each in settings if each.name in flags.only]
    files.make_directory(flags.workdir)
    for seed in range(1, flags.seeds + 1):
        for setting in settings:
            path = flags.workdir / f"{setting.name}_seed{seed}.json"
            if path.exists():
                before = attention_files.read_training(path)
                if fewest_rounds_of(before) >= flags.fewest_rounds:
                    continue
            found = train(setting, seed, data, flags.fewest_rounds)
            found |= {"commit": at_start, "date": _today()}
            files.write_atomically(path, [json.dumps(found).encode()])
            print(
                f"{path.stem}: validation {min(found['curve']):.1f} in round {found['best_round']}"
                f" of {len(found['curve'])}, {found['cpu_seconds']} s",
                flush=True,
            )


def report(flags: argparse.Namespace, typed: Sequence[str], data: Data | None) -> dict[str, Any]:
    """The rows of all trainings in the folder, and where they are from; JSON values.

    Args:
      flags: Of the command.
      typed: The same, as words of the command line.
      data: To count words trained on where a training does not say; None leaves them unknown.
    """
    trainings = attention_files.read_trainings(flags.workdir)
    if data is not None:
        trainings = [{"tokens": tokens_of(each, data), **each} for each in trainings]
    return {
        "command": shlex.join(["python", "-m", "benchmarks.attention_sweeps", *typed]),
        "commit": commit(),
        "date": _today(),
        "machine": {"cpus": os.cpu_count()},
        "store": None if flags.store is None else str(flags.store),
        "rows": attention_table.rows_of(trainings),
        "at_best_rate": rows_at_best_rate(trainings),
    }


def _today() -> str:
    return datetime.date.today().isoformat()


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains what is missing and writes table and figures."""
    typed = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=pathlib.Path, help="client store")
    parser.add_argument("--workdir", type=pathlib.Path, required=True, help="of the trainings")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON of the table")
    parser.add_argument("--words", type=int, default=1000, help="rows of the model")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument(
        "--fewest-rounds", type=int, default=FEWEST_ROUNDS, help="before a curve counts as flat"
    )
    parser.add_argument("--only", nargs="*", default=(), help="names of settings")
    parser.add_argument("--as-published", action="store_true", help="with their loader's error")
    parser.add_argument("--table", action="store_true", help="train nothing")
    flags = parser.parse_args(typed)
    if flags.store is None and not flags.table:
        parser.error("--store is needed, but for --table")
    try:
        attention_files.read_trainings(flags.workdir)
    except ValueError as error:
        parser.error(str(error))
    data = None
    if flags.store is not None:
        data = read_data(flags.store, flags.words, as_published=flags.as_published)
    if data is not None and not flags.table:
        train_missing(flags, data)
    found = report(flags, typed, data)
    files.make_directory(flags.out.parent)
    files.write_atomically(flags.out, [json.dumps(found, indent=1).encode(), b"\n"])
    print(attention_table.markdown(found["rows"]))


if __name__ == "__main__":
    main()
