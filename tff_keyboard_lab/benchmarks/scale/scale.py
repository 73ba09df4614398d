"""Measures how a round's time and memory grow: with the cohort, the population, and the aggregator.

python -m tff_keyboard_lab.benchmarks.scale.scale --out=scale.json --plot=docs/performance_scale.png

  cohort      seconds of a round and peak memory of the process, 10 to 10,000 clients (full-size
              CIFG), in packs as in training
  population  seconds of a round of 10 clients, its input included, with 10^2 to 10^6 clients in
              the store; random words, 4 messages a client
  rules       FedAtt and FedMed over FedAvg at cohorts of 10 and 100, rounds interleaved

Every size gets a round that compiles and does not count, then `--repeats` rounds; medians.
"""

import argparse
import gc
import json
import os
import pathlib
import tempfile
import time

import numpy as np

from tff_keyboard.storage import names
from tff_keyboard_lab.benchmarks.round.round import VOCABULARY
from tff_keyboard_lab.benchmarks.round.round_clients import num_tokens, synthetic_clients
from tff_keyboard_lab.benchmarks.scale import made_stores
from tff_keyboard_lab.tools import process_tree
from tff_keyboard_lab.tools.checkout import circumstances

RULES = ("mean", "fedatt", "fedmed")


def timed_rounds(process, data, repeats, warm=True):
    """Returns `(seconds and CPU seconds of each round, peak MB)`, after a round that warms up."""
    state = process.initialize()
    if warm:
        process.next(state, data)
    process_tree.reset_peak(os.getpid())
    seconds, cpu = [], []
    for _ in range(repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        process.next(state, data)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
    return seconds, cpu, process_tree.peak_megabytes(os.getpid())


def config_for(clients_per_round, rule="mean", store="unused", protections=True):
    from tff_keyboard import config

    overrides = [
        f"train.clients_per_round={clients_per_round}",
        f"aggregation.rule.type={rule}",
        "client.max_examples=64",
        f"data.store={json.dumps(str(store))}",
    ]
    if not protections:
        overrides += ["aggregation.protection.type=off"]
    return config.load(None, overrides)


def build(config, vocabulary, *, joined=False):
    from tff_keyboard.training import build

    model = build.build_initial_model(config, vocabulary)
    return build.build_process(config, model, joined=joined)


def words(size):
    from tff_keyboard.data.vocabulary import NUM_SPECIAL, NormalisationRules, Vocabulary

    counts = {f"w{n}": size - n for n in range(size - NUM_SPECIAL)}
    return Vocabulary.from_counts(counts, size, NormalisationRules())


def measure_cohorts(cohorts, messages, repeats, seed):
    """Returns rows of {"clients", "tokens", "seconds", "cpu_seconds", "peak_megabytes"}."""
    from tff_keyboard.algorithms.cohort_batcher import prepare_process

    rows: list[dict] = []
    config = config_for(max(cohorts))
    prepared = prepare_process(build(config, words(VOCABULARY), joined=True))
    for cohort in sorted(cohorts):
        clients = synthetic_clients(cohort, messages, 16, 20, seed)
        sizes = [num_tokens([client]) for client in clients]
        packs = prepared.batcher(clients, sizes)
        seconds, cpu, peak = timed_rounds(prepared.process, packs, repeats, warm=not rows)
        rows.append(
            {
                "clients": cohort,
                "messages": messages,
                "tokens": sum(sizes),
                "seconds": float(np.median(seconds)),
                "cpu_seconds": float(np.median(cpu)),
                "peak_megabytes": peak,
            }
        )
        print(rows[-1], flush=True)
        gc.collect()
    return rows


def write_store(directory, num_clients, messages, seed):
    """Writes a client store of random words directly."""
    from tff_keyboard.data.store import example_bytes, store_writer

    rng = np.random.default_rng(seed)
    vocabulary = words(VOCABULARY)
    vocabulary.save(directory / names.VOCABULARY)
    writer = store_writer.StoreWriter(directory)
    for n in range(num_clients):
        ids = rng.integers(4, VOCABULARY, [messages, 8]).tolist()
        examples = [
            example_bytes.example_bytes(b"".join(map(example_bytes.varint, row)), b"")
            for row in ids
        ]
        writer.add_client("train", f"client{n:06}", examples, [8] * messages)
    made_stores.finish(directory, writer, vocabulary)


def measure_populations(populations, cohort, repeats, seed):
    """Measures rounds with stores of different sizes.

    Returns:
      Rows of {"clients", "open_seconds", "input_seconds", "round_seconds", "store_megabytes"}.
      `input_seconds` is the time to choose the cohort, read its messages and make batches.
    """
    from tff_keyboard.algorithms.cohort_batcher import prepare_process
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.training.build import build_cohorts

    rows = []
    prepared = None
    for population in populations:
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory)
            write_store(path, population, 4, seed)
            start = time.perf_counter()
            store = ClientStore(path)
            config = config_for(cohort, store=path)
            inputs = build_cohorts(config, store)
            open_seconds = time.perf_counter() - start
            prepared = prepared or prepare_process(build(config, store.vocabulary, joined=True))
            state = prepared.process.initialize()
            input_seconds, round_seconds = [], []
            for round_num in range(1, repeats + 2):
                start = time.perf_counter()
                packs, _ = inputs.round_input(round_num, prepared.batcher)
                middle = time.perf_counter()
                prepared.process.next(state, packs)
                if round_num > 1:
                    input_seconds.append(middle - start)
                    round_seconds.append(time.perf_counter() - middle)
            size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
        rows.append(
            {
                "clients": population,
                "open_seconds": open_seconds,
                "input_seconds": float(np.median(input_seconds)),
                "round_seconds": float(np.median(round_seconds)),
                "store_megabytes": size,
            }
        )
        print(rows[-1], flush=True)
    return rows


def measure_rules(cohorts, messages, repeats, seed):
    """Measures FedAvg, FedAtt and FedMed without protections.

    Returns:
      Rows of {"clients", "rule", "seconds", "over_mean", "cpu_over_mean"}.
    """
    from tff_keyboard.algorithms.cohort_batcher import prepare_process

    rows = []
    for cohort in cohorts:
        clients = synthetic_clients(cohort, messages, 16, 20, seed)
        sizes = [num_tokens([client]) for client in clients]
        processes, states, packs = {}, {}, {}
        for rule in RULES:
            config = config_for(cohort, rule, protections=False)
            prepared = prepare_process(build(config, words(VOCABULARY), joined=True))
            processes[rule], packs[rule] = prepared.process, prepared.batcher(clients, sizes)
            states[rule] = processes[rule].initialize()
        seconds: dict[str, list[float]] = {rule: [] for rule in RULES}
        cpu: dict[str, list[float]] = {rule: [] for rule in RULES}
        for repeat in range(repeats + 1):
            for rule in RULES:
                start, start_cpu = time.perf_counter(), time.process_time()
                processes[rule].next(states[rule], packs[rule])
                if repeat:
                    seconds[rule].append(time.perf_counter() - start)
                    cpu[rule].append(time.process_time() - start_cpu)
        for rule in RULES:
            ratios = np.array(seconds[rule]) / np.array(seconds["mean"])
            rows.append(
                {
                    "clients": cohort,
                    "rule": rule,
                    "seconds": float(np.median(seconds[rule])),
                    "over_mean": float(np.median(ratios)),
                    "cpu_over_mean": float(np.median(cpu[rule]) / np.median(cpu["mean"])),
                }
            )
            print(rows[-1], flush=True)
    return rows


def plot(result, path):
    """Draws three panels: time against cohort, memory against cohort, time against population."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
    cohorts, populations = result["cohorts"], result["populations"]
    clients = np.array([row["clients"] for row in cohorts])
    seconds = np.array([row["seconds"] for row in cohorts])
    cpu = np.array([row["cpu_seconds"] for row in cohorts])
    slope = cpu[-1] / clients[-1]
    axes[0].loglog(clients, seconds, "o-", label="wall")
    axes[0].loglog(clients, cpu, "s-", label="CPU")
    axes[0].loglog(
        clients, slope * clients, "--", color="grey", label=f"{1e3 * slope:.1f} CPU ms each"
    )
    axes[0].set(xlabel="clients in a round", ylabel="seconds a round")
    axes[0].set_title("Time grows with the cohort")
    axes[0].legend(frameon=False)
    axes[1].semilogx(clients, [row["peak_megabytes"] for row in cohorts], "o-")
    axes[1].set(xlabel="clients in a round", ylabel="peak memory, MB", ylim=(0, None))
    axes[1].set_title("Memory of the process")
    sizes = [row["clients"] for row in populations]
    axes[2].semilogx(sizes, [row["round_seconds"] for row in populations], "o-", label="round")
    axes[2].semilogx(
        sizes, [row["input_seconds"] for row in populations], "s-", label="its input (read ahead)"
    )
    axes[2].set(xlabel="clients in the store", ylabel="seconds", ylim=(0, None))
    axes[2].set_title("10 clients out of many")
    axes[2].legend(frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, nargs="+", default=[10, 100, 1_000, 10_000])
    parser.add_argument("--populations", type=int, nargs="+", default=[10**n for n in range(2, 7)])
    parser.add_argument("--rule-cohorts", type=int, nargs="+", default=[10, 100])
    parser.add_argument(
        "--messages", type=int, default=1, help="messages of each client in the part 'cohorts'"
    )
    parser.add_argument(
        "--rule-messages", type=int, default=64, help="messages of each client in the part 'rules'"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", choices=["cohorts", "populations", "rules"], help="measure only this part"
    )
    parser.add_argument(
        "--parts", type=pathlib.Path, nargs="+", help="plot these files of earlier runs (--out)"
    )
    parser.add_argument(
        "--plot", type=pathlib.Path, help="PNG file with the plots of cohorts and populations"
    )
    parser.add_argument("--out", type=pathlib.Path, help="write the result to this JSON file, too")
    flags = parser.parse_args()
    if flags.plot and flags.only:
        parser.error("--plot needs all parts: leave --only out, or pass --parts")
    if flags.parts:
        merged: dict = {}
        for part in flags.parts:
            merged |= json.loads(part.read_text())
        plot(merged, flags.plot)
        if flags.out:
            flags.out.write_text(json.dumps(merged, indent=2) + "\n")
        return

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tff_keyboard.host import quiet

    quiet.import_tensorflow_federated()
    from tff_keyboard.algorithms.client_packing.local_context import local_context

    local_context()
    result = {
        **circumstances(),
        "arguments": {k: str(v) for k, v in vars(flags).items() if v is not None and k != "out"},
    }
    parts = {
        "rules": lambda: measure_rules(
            flags.rule_cohorts, flags.rule_messages, flags.repeats, flags.seed
        ),
        "cohorts": lambda: measure_cohorts(
            flags.cohorts, flags.messages, flags.repeats, flags.seed
        ),
        "populations": lambda: measure_populations(
            flags.populations, 10, flags.repeats, flags.seed
        ),
    }
    for name, measure in parts.items():
        if flags.only in (None, name):
            result[name] = measure()
    text = json.dumps(result, indent=2)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")
    if flags.plot:
        plot(result, flags.plot)


if __name__ == "__main__":
    main()
