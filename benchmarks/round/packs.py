"""What a client of a store costs, one by one and in packs, rounds interleaved; memory by cohort.

python -m benchmarks.round.packs --store=data/irc --out=packs.json

  tiny    one message of one word: what a client costs besides its text
  store   cohorts of the store, as training draws them

CPU is that of worker and this process together: it says the same on a busy machine, walls do not.
Every rule in every form gets a round that compiles and does not count, then `--repeats` rounds, one
after the other in each round's cohort, so that other load hits all alike; medians, and the median
of each rule's ratios to the first one's.
"""

import argparse
import json
import pathlib
import statistics
import time
from typing import Any

import numpy as np

from tools import process_tree
from tools.checkout import commit

PROTECTED = ["aggregation.protection.clipping=adaptive"]
RULES = {
    "mean": [*PROTECTED],
    "fedatt": ["aggregation.rule.name=fedatt", *PROTECTED],
    "fedmed": ["aggregation.rule.name=fedmed", *PROTECTED],
    "private": [
        "aggregation.client_weighting=uniform",
        "aggregation.privacy.mechanism=gaussian",
        "aggregation.privacy.noise_multiplier=1.0",
    ],
}
FORMS = {  # name -> clients a pack, batches joined
    "one by one": (1, False),
    "joined one by one": (1, True),
    "packs of 4": (4, True),
    "packs of 8": (8, True),
    "16 packs": (0, True),
}


def config_for(rule: str, store: str, clients: int, per_pack: int) -> Any:
    from tff_keyboard import config

    overrides = [
        f"data.store={json.dumps(store)}",
        "client.learning_rate=0.5",
        "client.gradient_clip_norm=1.0",
        "client.batch_size=8",
        "client.max_examples=64",
        f"train.clients_per_round={clients}",
        "execution.sub_rounds=1",
        f"execution.clients_per_pack={per_pack}",
    ]
    return config.load(None, [*overrides, *RULES[rule]])


def noise_of_rounds(size: int):
    return lambda round_num: np.random.default_rng(round_num).normal(size=size)


def deliveries(rule: str, store, clients: int, forms: list[str]) -> dict[str, Any]:
    from tff_keyboard.federated.algorithms.build_process import build_initial_model, build_process
    from tff_keyboard.federated.learning.client_delivery import build_delivery

    built = {}
    for form in forms:
        per_pack, joined = FORMS[form]
        config = config_for(rule, str(store.directory), clients, per_pack)
        model = build_initial_model(config, store.vocabulary)
        process = build_process(config, model, build_noise=noise_of_rounds, joined=joined)
        built[form] = build_delivery(process, config)
    return built


def cohort(kind: str, inputs, round_num: int, clients: int) -> tuple[list, list[int]]:
    """Batches of each client, and its tokens."""
    if kind == "tiny":
        return [[np.array([[1, 4 + i % 50, 2]], np.int32)] for i in range(clients)], [2] * clients
    (drawn,), _ = inputs.round_input(round_num, lambda batches, sizes: [(batches, sizes)])
    return drawn


def measure(rules: list[str], kind: str, store, clients: int, forms: list[str], repeats: int, pid):
    """Rows of each rule in each form; `pid` is the worker's."""
    from tff_keyboard.federated.learning.client_inputs import CohortInputs

    inputs = CohortInputs(config_for(rules[0], str(store.directory), clients, 1), store)
    built, states = {}, {}
    for rule in rules:
        for form, delivery in deliveries(rule, store, clients, forms).items():
            built[rule, form] = delivery
        states[rule] = delivery.process.initialize()
    cpu: dict[tuple[str, str], list[float]] = {key: [] for key in built}
    tokens: list[int] = []
    for round_num in range(1, repeats + 2):
        batches, sizes = cohort(kind, inputs, round_num, clients)
        for (rule, form), delivery in built.items():
            start = time.process_time() + process_tree.cpu_seconds(pid)
            delivery.process.next(states[rule], delivery.deliver(batches, sizes))
            taken = time.process_time() + process_tree.cpu_seconds(pid) - start
            if round_num > 1:
                cpu[rule, form].append(taken)
        if round_num > 1:
            tokens.append(sum(sizes))
    for (rule, form), seconds in cpu.items():
        row = {
            "rule": rule,
            "clients": kind,
            "form": form,
            "cpu_ms_a_client": 1e3 * statistics.median(seconds) / clients,
            "over_first_rule": float(np.median(np.array(seconds) / cpu[rules[0], form])),
            "tokens_a_client": statistics.mean(tokens) / clients,
            "tokens_a_cpu_second": statistics.mean(tokens) / statistics.median(seconds),
        }
        print(json.dumps(row), flush=True)
        yield row


def memory(rule: str, store, cohorts: list[int]) -> Any:
    """Peak memory of a fresh worker after two rounds of a cohort in packs."""
    from tff_keyboard.federated.learning.client_inputs import CohortInputs
    from tff_keyboard.program.engines import execution

    for clients in cohorts:
        with execution.install_context(1) as installed:
            (built,) = deliveries(rule, store, clients, ["16 packs"]).values()
            inputs = CohortInputs(config_for(rule, str(store.directory), clients, 0), store)
            state = built.process.initialize()
            for round_num in (1, 2):
                built.process.next(state, inputs.round_input(round_num, built.deliver)[0])
            peak = process_tree.peak_megabytes(installed.pool.members[0].pid)
        row = {"rule": rule, "cohort": clients, "worker_peak_mb": peak}
        print(json.dumps(row), flush=True)
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rules", default="mean,fedatt", help=", ".join(RULES))
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--cohorts", default="", help="for memory, such as 10,100,1000")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    from tff_keyboard.host import quiet

    quiet.import_tensorflow_federated()
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.program.engines import execution

    store = ClientStore(arguments.store)
    rows: list[dict[str, Any]] = []
    rules, forms = arguments.rules.split(","), arguments.forms.split(",")
    if arguments.repeats:
        with execution.install_context(1) as installed:
            worker = installed.pool.members[0]
            for kind in ("tiny", "store"):
                shape = (arguments.clients, forms, arguments.repeats, worker.pid)
                rows += measure(rules, kind, store, *shape)
    peaks = [
        row
        for rule in rules
        for row in memory(rule, store, [int(n) for n in arguments.cohorts.split(",") if n])
    ]
    result = {"commit": commit(), "rounds": rows, "memory": peaks}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
