"""Measures the cost of a state for each client, which SCAFFOLD needs (Karimireddy et al. 2020).

python -m tff_keyboard_lab.benchmarks.scale.client_state --folder=FOLDER --out=client_state.json

SCAFFOLD keeps a control variate of the size of the model for each client
(https://arxiv.org/abs/1910.06378, Algorithm 1). In each round, the states of the cohort are read
and written once. For the full-size CIFG:

  round     seconds of a round of FedAvg, with clients of 13 messages, in packs as in training
  states    seconds to read and write the states of the cohort in FOLDER with `np.load` and
            `np.save`, as fast as the disk allows: `cached` leaves the files to the page cache;
            `on_disk` syncs what it writes, as checkpoints do, and reads from the disk
  disk      bytes of all states, for a population
  returns   mean number of rounds of a client in a run, and the share of the reports that come from
            a client without a state, with cohorts drawn uniformly:
            1 - (1 - M / N)^T of N clients take part in T rounds with M clients each

A round that compiles does not count. Rounds and states alternate; medians of `--repeats`.
"""

import argparse
import json
import os
import pathlib
import time

import numpy as np

from tff_keyboard_lab.benchmarks.round.round import VOCABULARY
from tff_keyboard_lab.benchmarks.round.round_clients import num_tokens
from tff_keyboard_lab.benchmarks.round.step import make_batches
from tff_keyboard_lab.benchmarks.scale import scale
from tff_keyboard_lab.tools.checkout import circumstances

POPULATIONS = (1_000, 10_000, 1_000_000)


def client_of(messages, seed):
    """Returns the batches of a client: of 8 messages, the last one smaller."""
    sizes = [8] * (messages // 8) + [messages % 8] * (messages % 8 > 0)
    return [make_batches(1, size, 20, [*seed, n], False)[0] for n, size in enumerate(sizes)]


def path_of(folder, client):
    return folder / f"{client:06}.npy"


def write_states(folder, states, *, is_synced):
    for client, state in enumerate(states):
        with path_of(folder, client).open("wb") as file:
            np.save(file, state)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())


def read_states(folder, num_clients, *, is_cold):
    """Reads the states, from the disk itself if `is_cold`. Returns them and the seconds."""
    if is_cold:
        for client in range(num_clients):
            with path_of(folder, client).open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    states = [np.load(path_of(folder, client)) for client in range(num_clients)]
    return states, time.perf_counter() - start


def state_seconds(folder, states, *, on_disk):
    """Returns seconds to write and to read the states."""
    start = time.perf_counter()
    write_states(folder, states, is_synced=on_disk)
    written = time.perf_counter() - start
    stored, read = read_states(folder, len(states), is_cold=on_disk)
    assert all(np.array_equal(a, b) for a, b in zip(stored, states, strict=True))
    return written, read


def returns(population, cohort, rounds):
    """Returns the mean number of rounds of a client, and the share of first participations."""
    participations = cohort * rounds
    distinct = population * (1 - (1 - cohort / population) ** rounds)
    return {
        "population": population,
        "rounds_per_client": participations / population,
        "share_without_state": distinct / participations,
    }


def measure(folder, *, cohort, messages, repeats, seed):
    """Returns a dict that can be written as JSON."""
    from tff_keyboard.algorithms.cohort_batcher import prepare_process
    from tff_keyboard.training import build

    config = scale.config_for(cohort)
    model = build.build_initial_model(config, scale.words(VOCABULARY))
    size = model.count_params()
    prepared = prepare_process(build.build_process(config, model, joined=True))
    clients = [client_of(messages, [seed, n]) for n in range(cohort)]
    sizes = [num_tokens([client]) for client in clients]
    data = prepared.batcher(clients, sizes)
    rng = np.random.default_rng(seed)
    states = [rng.normal(size=size).astype(np.float32) for _ in range(cohort)]
    state = prepared.process.initialize()
    prepared.process.next(state, data)
    rounds, cached, on_disk = [], [], []
    for _ in range(repeats):
        start = time.perf_counter()
        prepared.process.next(state, data)
        rounds.append(time.perf_counter() - start)
        cached.append(state_seconds(folder, states, on_disk=False))
        on_disk.append(state_seconds(folder, states, on_disk=True))
    round_seconds = float(np.median(rounds))
    result = {
        "parameters": size,
        "tokens": sum(sizes),
        "round_seconds": round_seconds,
        "state_megabytes": size * 4 / 1e6,
    }
    for name, seconds in {"cached": cached, "on_disk": on_disk}.items():
        write, read = (float(x) for x in np.median(seconds, axis=0))
        result[name] = {
            "write_seconds": write,
            "read_seconds": read,
            "share_of_round": (write + read) / round_seconds,
        }
    return result


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=pathlib.Path, required=True, help="a new folder on the disk to measure"
    )
    parser.add_argument("--cohort", type=int, default=50)
    parser.add_argument("--messages", type=int, default=13)
    parser.add_argument("--rounds", type=int, default=1000, help="rounds of a run, for the returns")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, help="write the result to this JSON file, too")
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tff_keyboard.host import quiet

    quiet.import_tensorflow_federated()
    from tff_keyboard.algorithms.client_packing.local_context import local_context

    local_context()
    result = {
        **circumstances(),
        "seed": flags.seed,
        "cohort": flags.cohort,
        **measure(
            flags.folder,
            cohort=flags.cohort,
            messages=flags.messages,
            repeats=flags.repeats,
            seed=flags.seed,
        ),
        "returns": [returns(n, flags.cohort, flags.rounds) for n in POPULATIONS],
    }
    for row in result["returns"]:
        row["gigabytes"] = row["population"] * result["state_megabytes"] / 1e3
    text = json.dumps(result, indent=2)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")
    for file in flags.folder.glob("*.npy"):
        file.unlink()
    flags.folder.rmdir()


if __name__ == "__main__":
    main()
