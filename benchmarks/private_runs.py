"""One tiny run of every privacy mechanism: what its ledger says, and its statement.

python -m benchmarks.private_runs --store=data/demo --workdir=runs/private --out=private_runs.txt

The model has a few thousand parameters and trains a few rounds: what is shown is what stands in the
files, not accuracy. Then the accounting of a launch (2,000 rounds of 6,500 people, each at least
313 rounds apart and at most 6 times in: Xu et al. 2023, https://arxiv.org/abs/2305.18465) is timed
for every mechanism, by CPU: what a run does once when it begins, and what its statement takes.
A run that is there is read, not trained again.
"""

import argparse
import json
import pathlib
import time
from collections.abc import Sequence
from typing import Any

from tff_keyboard.config import RunConfig
from tff_keyboard.privacy.guarantee import guarantee_of, total_guarantee
from tff_keyboard.privacy.ledger import read_ledger
from tff_keyboard.privacy.ledger_header import LedgerHeader
from tff_keyboard.privacy.mechanism import NAMES, optimal_mechanism
from tff_keyboard.privacy.statement import privacy_statement
from tff_keyboard.storage import files, names

SMALL = (
    *("model.units=16", "model.embedding_size=8", "client.max_examples=8"),
    *("train.rounds=4", "train.clients_per_round=10", "evaluation.every=4"),
    *("aggregation.client_weighting=uniform", "aggregation.privacy.clip_norm=0.5"),
    *("aggregation.privacy.noise_multiplier=2.0", "aggregation.privacy.delta=1e-4"),
)
SEPARATED = ("train.min_separation_rounds=4",)


def _mechanism(name: str, *more: str) -> tuple[str, ...]:
    return (f"aggregation.privacy.mechanism={name}", *more)


RUNS: dict[str, tuple[str, ...]] = {
    "gaussian": _mechanism("gaussian"),
    "gaussian_discrete": _mechanism("gaussian", "aggregation.privacy.distribution=discrete"),
    # The count of unclipped clients needs noise of its own of more than z / 2 clients.
    "gaussian_adaptive": _mechanism(
        "gaussian_adaptive", "aggregation.privacy.clipped_count_noise=0.5"
    ),
    "tree": _mechanism("tree", *SEPARATED),
    "tree_adaptive": _mechanism(
        "tree_adaptive",
        "aggregation.privacy.restart_rounds=2",
        "aggregation.privacy.clipped_count_noise=0.5",
        *SEPARATED,
    ),
    "blt": _mechanism("blt", *SEPARATED),
    "banded": _mechanism("banded", "aggregation.privacy.bands=4", *SEPARATED),
    "private_fedatt": _mechanism("gaussian", "aggregation.rule.name=private_fedatt"),
    "blt_projection": _mechanism("blt", "aggregation.privacy.noise_cohort_size=6500", *SEPARATED),
}
LAUNCH_ROUNDS, LAUNCH_SEPARATION, LAUNCH_PARTICIPATIONS, LAUNCH_COHORT = 2000, 313, 6, 6500


def run_config(name: str, store: pathlib.Path) -> RunConfig:
    """The demo's config, shrunk, with the privacy of `RUNS[name]`."""
    from tff_keyboard import config

    overrides = [*SMALL, f"data.store={json.dumps(str(store))}", *RUNS[name]]
    return config.load("configs/demo.toml", overrides)


def described(run_dir: pathlib.Path) -> str:
    """The ledger's header and last round as they stand in the file, and the statement."""
    ledger = run_dir / names.LEDGER
    lines = ledger.read_text(encoding="utf-8").splitlines()
    return "\n".join([f"== {run_dir.name}", lines[0], lines[-1], "", privacy_statement(ledger), ""])


def summary(run_dirs: Sequence[pathlib.Path]) -> str:
    """A Markdown table, a line a run."""
    rows = []
    for run_dir in run_dirs:
        header, rounds = read_ledger(run_dir / names.LEDGER)
        found = total_guarantee(header, len(rounds))
        assert found is not None
        rows.append(
            (
                run_dir.name,
                header.aggregator,
                f"{header.noise_multiplier:g}",
                str(header.min_separation_rounds),
                "-" if found.rho is None else f"{found.rho:.3f}",
                f"{found.epsilon:.2f}",
                found.method,
            )
        )
    heads = ("run", "rule", "multiplier", "separation", "rho", "epsilon", "accounting")
    return markdown_table(heads, rows)


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As documentation has it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def launch(name: str) -> tuple[float, float, float]:
    """CPU seconds to choose a mechanism for the launch and to account for it, and epsilon."""
    begin = time.process_time()
    chosen = optimal_mechanism(
        name,
        rounds=LAUNCH_ROUNDS,
        min_separation=LAUNCH_SEPARATION,
        max_participations=LAUNCH_PARTICIPATIONS,
        restart_rounds=LAUNCH_SEPARATION if name == "tree_adaptive" else 0,
        bands=32,
    )
    correlated = not chosen.is_independent
    planned = time.process_time()
    found = guarantee_of(
        LedgerHeader(
            mechanism=chosen,
            aggregator="mean",
            noise_multiplier=7.0,
            clip_norm=0.5,
            delta=1e-10,
            population=LAUNCH_COHORT * LAUNCH_SEPARATION,
            clients_per_round=LAUNCH_COHORT,
            selected_per_round=LAUNCH_COHORT,
            sampling="fixed_size",
            uniform_sampling=not correlated,
            secret_cohorts=True,
            min_separation_rounds=LAUNCH_SEPARATION if correlated else 1,
            max_participations=LAUNCH_PARTICIPATIONS if correlated else 0,
        ),
        LAUNCH_ROUNDS,
    )
    return planned - begin, time.process_time() - planned, found.epsilon


def launches() -> str:
    """A Markdown table of all mechanisms."""
    rows = []
    for name in NAMES:
        choosing, accounting, epsilon = launch(name)
        chosen = f"{choosing:.2f}" if name in ("blt", "banded") else "-"
        rows.append((name, chosen, f"{accounting:.2f}", f"{epsilon:.2f}"))
    return markdown_table(
        ("mechanism", "coefficients, CPU s", "accounting, CPU s", "epsilon"), rows
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", type=pathlib.Path, required=True)
    parser.add_argument("--workdir", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--runs", default=",".join(RUNS))
    flags = parser.parse_args(arguments)
    chosen = flags.runs.split(",")
    files.make_directory(flags.workdir)
    for name in chosen:
        train(name, flags.store, flags.workdir / name)
    run_dirs = [flags.workdir / name for name in chosen]
    text = "\n".join(described(run_dir) for run_dir in run_dirs)
    files.write_atomically(flags.out, [text.encode()])
    print(summary(run_dirs), launches(), sep="\n\n")


def train(name: str, store: pathlib.Path, run_dir: pathlib.Path) -> None:
    """Trains the run, unless its model is there."""
    if (run_dir / names.MODEL).exists():
        return
    from tff_keyboard import quiet

    quiet.import_tensorflow_federated()
    from tff_keyboard.training.federated import train_federated

    row: dict[str, Any] = train_federated(run_config(name, store), run_dir)
    print(f"{name}: {row['round']} rounds", flush=True)


if __name__ == "__main__":
    main()
