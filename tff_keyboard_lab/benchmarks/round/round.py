r"""Times one federated round: ours, stock TFF, and other frameworks.

python -m tff_keyboard_lab.benchmarks.round.round --store=data/nus_sms \
    --torch-python=/tmp/torch-venv/bin/python --jax-python=/tmp/jax-venv/bin/python \
    --out=round.json

The same clients, batches, initial weights and plain SGD (CIFG of Hard et al. 2018) go to

  stock        a TFF tutorial: tff_keyboard_lab/benchmarks/round/stock_tff.py
  stock_best   the same with `loop_implementation` = DATASET_ITERATOR, TFF's fastest loop
  ours         the ordinary process of a config, clients in packs, with the same mathematics
  defaults     the same with all protections that a config has by default
  torch        a plain PyTorch loop: benchmarks/round/torch_loop.py, needs --torch-python; all cores
  torch_1      the same with one thread
  pfl, flower  the torch step in pfl-research and in Flower's simulation:
               benchmarks/round/other_simulators.py, need --pfl-python, --flower-python
  pfl_1        pfl-research with OMP_NUM_THREADS=1
  jax          a plain JAX loop: benchmarks/round/jax_loop.py, needs --jax-python
  jax_2        the same with two devices, a thread each
  fedjax       FedJAX's `for_each_client`, if that Python has fedjax

Repeats are interleaved, so that other load on the machine affects all; look at the ratios. Each
contestant is compiled by a first round that does not count. CPU time is that of all processes of a
contestant, including the driver. Ours and stock must have the same loss after the round to 1e-6
relative, or the benchmark fails. `benchmarks/round/round_sizes.py` runs it at three sizes of
clients.

Three more rounds of the same cohort show how the time of ours is spent: with one short message a
client (`near_empty`), and the same without aggregation (`no_aggregation`). Compute is the time of
`ours` minus `near_empty`, aggregation is `near_empty` minus `no_aggregation`, and the rest is
overhead. The batches are made (`data`) one round ahead in another thread.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import signal
import tempfile
import time

import numpy as np

from tff_keyboard_lab.benchmarks.round.contestants import (
    Answering,
    DropFactory,
    NoAnswerError,
    TffRound,
    peer_commands,
    write_for_others,
)
from tff_keyboard_lab.benchmarks.round.round_clients import (
    num_tokens,
    store_clients,
    synthetic_clients,
)
from tff_keyboard_lab.benchmarks.round.step import FLOP_PER_TOKEN, gemm_peak
from tff_keyboard_lab.tools import process_tree
from tff_keyboard_lab.tools.checkout import circumstances

VOCABULARY, UNITS, DIM = 10_000, 670, 96
LEARNING_RATE = 0.5
PARTS = ("near_empty", "no_aggregation")  # rounds of `ours` for the parts, not contestants
OURS = ("ours", "defaults")
OTHERS = ("torch", "pfl", "flower", "jax")  # frameworks in other Pythons
LOSS_TOLERANCE = 1e-6  # of ours against stock, relative


def run_config(*, protections):
    """Returns the config of our rounds. Without protections it is plain FedAvg with plain SGD."""
    from tff_keyboard import config

    overrides = [
        "aggregation.client_weighting=examples",
        f"client.learning_rate={LEARNING_RATE}",
        "server.type=fedavg",
    ]
    if not protections:
        overrides += [
            "aggregation.protection.type=off",
            "client.gradient_clip_norm=0",
        ]
    return config.load(None, overrides)


def mean_loss(model, weights, clients):
    """Returns nats a real target over all batches, for weights in `trainable_variables` order."""
    import tensorflow as tf

    from tff_keyboard.models.softmax_loss import softmax_loss

    for variable, value in zip(model.trainable_variables, weights, strict=True):
        variable.assign(value)
    total, count = 0.0, 0
    for batch in (batch for client in clients for batch in client):
        hidden, table, bias, targets = model.packed_hidden_at_targets(batch[:, :-1], batch[:, 1:])
        losses, _ = softmax_loss(hidden, table, bias, targets)
        total += float(tf.reduce_sum(tf.cast(losses, tf.float64)))
        count += len(targets)
    return total / count


def run(
    make_clients,
    *,
    repeats,
    parts=True,
    pythons=None,
    protections=True,
    threads=0,
):
    """Times all contestants; see the module docstring.

    Args:
      make_clients: Returns the batches of each client.
      repeats: Number of timed rounds of each.
      parts: Whether to measure the parts of a round.
      pythons: Name -> Python of "torch", "pfl", "flower", "jax".
      protections: Whether to time "defaults", too.
      threads: Packs of ours at a time; 0 for one on each core.

    Returns:
      A dict that can be written as JSON.

    Raises:
      AssertionError: If the losses of ours and stock differ.
    """
    import tensorflow_federated as tff

    from tff_keyboard.algorithms import fed_avg as algorithms
    from tff_keyboard.algorithms.client_packing.local_context import local_context
    from tff_keyboard.algorithms.cohort_batcher import prepare_process
    from tff_keyboard.algorithms.optimizers import optimizers
    from tff_keyboard.data import batches
    from tff_keyboard.models import build_model
    from tff_keyboard.training import build
    from tff_keyboard_lab.benchmarks.round import stock_tff

    before = tff.framework.get_context_stack().current
    context = local_context(threads=threads)
    start = time.perf_counter()
    clients = make_clients()
    data_seconds = time.perf_counter() - start
    model = build_model("cifg", vocabulary_size=VOCABULARY, seed=1, units=UNITS, embedding_size=DIM)
    initial = [variable.numpy() for variable in model.trainable_variables]
    rounds: dict = collections.OrderedDict()
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: tff.framework.set_default_context(before))

        def ours(config, clients, process=None):
            """Returns a round as training runs it: clients in packs."""
            process = process or build.build_process(config, model, joined=True)
            prepared = prepare_process(process)
            sizes = [num_tokens([client]) for client in clients]
            data = prepared.batcher(clients, sizes)
            return TffRound(prepared.process, data, context, [], initial)

        # TFF's context and its server with their defaults: no limits, all threads.
        local = tff.backends.native.create_sync_local_cpp_execution_context()
        datasets = [batches.batches_dataset(client) for client in clients]
        loops = tff.learning.LoopImplementation
        for name, loop in {
            "stock": loops.DATASET_REDUCE,
            "stock_best": loops.DATASET_ITERATOR,
        }.items():
            stock = stock_tff.build_process(VOCABULARY, UNITS, DIM, LEARNING_RATE, loop)
            rounds[name] = TffRound(stock, datasets, local, [], initial)
            rounds[name].worker_pids = process_tree.descendants(os.getpid())
        plain = run_config(protections=False)
        rounds["ours"] = ours(plain, clients)
        if protections:
            rounds["defaults"] = ours(run_config(protections=True), clients)
        if parts:
            short = [[client[0][:1, :3]] for client in clients]
            rounds["near_empty"] = ours(plain, short)
            bare = algorithms.build_fed_avg(
                build.build_model_fn(plain, VOCABULARY, evaluation=False),
                client_optimizer=optimizers.build_client_optimizer(plain.client),
                server_optimizer=plain.server.build(),
                aggregator=DropFactory.build(),
                uniform_weights=False,
                joined=True,
            )
            rounds["no_aggregation"] = ours(plain, short, bare)
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "round.npz"
            write_for_others(file, initial, clients, LEARNING_RATE)
            for name, python in (pythons or {}).items():
                for contestant, (command, environment) in peer_commands(name, python, file).items():
                    other = Answering(command, environment)
                    rounds[contestant] = stack.enter_context(contextlib.closing(other))
            peak = 0.0
            failed = {}
            seconds: dict[str, list[float]] = {name: [] for name in rounds}
            cpu: dict[str, list[float]] = {name: [] for name in rounds}
            for repeat in range(repeats + 1):
                for name, one_round in list(rounds.items()):
                    try:
                        wall_seconds, cpu_seconds = one_round()
                    except NoAnswerError as error:  # keeps the rounds of the others
                        failed[name] = str(error)
                        del rounds[name], seconds[name], cpu[name]
                        continue
                    if repeat:  # the first one compiles
                        seconds[name].append(wall_seconds)
                        cpu[name].append(cpu_seconds)
                peak = max(peak, gemm_peak())
        # Our rounds run in this process, so their memory cannot be told from that of stock TFF's
        # driver.
        memory = {
            "stock": sum(process_tree.peak_megabytes(pid) for pid in rounds["stock"].worker_pids)
        }
        memory["python"] = process_tree.peak_megabytes(os.getpid())
        answers = {n: r.last for n, r in rounds.items() if isinstance(r, Answering)}
        memory |= {name: answer["peak_megabytes"] for name, answer in answers.items()}
    losses = {
        name: mean_loss(model, one_round.after, clients)
        for name, one_round in rounds.items()
        if isinstance(one_round, TffRound) and name not in PARTS
    }
    losses["initial"] = mean_loss(model, initial, clients)
    losses |= {name: answer["loss"] for name, answer in answers.items()}
    difference = abs(losses["ours"] / losses["stock"] - 1.0)
    assert difference < LOSS_TOLERANCE, f"losses after the round differ: {losses}"
    assert losses["ours"] < losses["initial"] - 1e-4, f"the round learnt nothing: {losses}"
    tokens = num_tokens(clients)
    largest_difference = max(
        float(np.max(np.abs(np.asarray(a) - np.asarray(b))))
        for a, b in zip(rounds["ours"].after, rounds["stock"].after, strict=True)
    )
    return {
        "clients": len(clients),
        "messages": sum(len(batch) for client in clients for batch in client),
        "tokens": tokens,
        "results": {
            name: {
                "tokens_per_second": tokens / float(np.median(values)),
                "best_tokens_per_second": tokens / min(values),
                "clients_per_second": len(clients) / float(np.median(values)),
                "tokens_per_cpu_second": tokens / max(float(np.median(cpu[name])), 1e-9),
                "seconds": values,
            }
            for name, values in seconds.items()
            if name not in PARTS
        },
        "ours_over": {
            name: float(np.median(np.array(values) / np.array(seconds["ours"])))
            for name, values in seconds.items()
            if name not in ("ours", *PARTS)
        },
        "cpu_ours_over": {
            name: float(np.median(cpu[name]) / np.median(cpu["ours"]))
            for name in seconds
            if name not in ("ours", *PARTS)
        },
        "best_peer": min(
            (name for name in seconds if name not in (*OURS, *PARTS)),
            key=lambda name: np.median(seconds[name]),
        ),
        "losses_after_round": losses,
        "loss_difference": difference,
        "largest_weight_difference": largest_difference,
        "peak_megabytes": memory,
        "failed": failed,
        "versions": {name: answer.get("version") for name, answer in answers.items()},
        "gemm_peak_gflops": peak,
        "data_seconds": data_seconds,
        **(_parts(seconds, tokens, peak) if parts else {}),
    }


def _parts(seconds, tokens, peak):
    """Returns shares of a round of ours, and its compute part as a share of the GEMM peak."""
    ours, near_empty, bare = (
        float(np.median(seconds[name])) for name in ("ours", "near_empty", "no_aggregation")
    )
    compute = ours - near_empty
    return {
        "share_of_round": {
            "compute": compute / ours,
            "aggregation": (near_empty - bare) / ours,
            "overhead": bare / ours,
        },
        "near_empty_round_seconds": near_empty,
        "compute_share_of_gemm_peak": tokens / compute * FLOP_PER_TOKEN / 1e9 / peak,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--store", type=pathlib.Path, help="client store; without it, messages are random words"
    )
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument(
        "--messages", type=int, default=256, help="number of messages of each client"
    )
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument(
        "--longest", type=int, default=20, help="largest number of targets of a message"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--threads", type=int, default=0, help="number of packs that this project trains at a time"
    )
    parser.add_argument(
        "--no-parts", action="store_true", help="do not measure the parts of a round"
    )
    for name in OTHERS:
        parser.add_argument(f"--{name}-python", help=f"Python that can import {name}")
    parser.add_argument("--out", type=pathlib.Path, help="write the result to this JSON file, too")
    flags = parser.parse_args()

    # A script's background jobs ignore SIGINT, and so would stock TFF's server, which TFF ends with
    # a SIGINT and then waits for.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tff_keyboard.host import quiet

    quiet.import_tensorflow_federated()
    import tensorflow as tf
    import tensorflow_federated as tff

    from tff_keyboard.data.store.client_store import ClientStore

    shape = (flags.clients, flags.messages, flags.batch_size, flags.longest, flags.seed)
    if flags.store is not None and flags.store.is_dir():
        store, text = ClientStore(flags.store), flags.store.name
    else:
        store, text = None, "random words"

    def make_clients():
        if store is None:
            return synthetic_clients(*shape)
        return store_clients(store, *shape)

    pythons = {name: python for name in OTHERS if (python := getattr(flags, f"{name}_python"))}
    for name in sorted({*OTHERS} - set(pythons)):
        print(f"{name} is skipped: pass --{name}-python.", flush=True)
    result = {
        **circumstances(),
        "tensorflow": tf.__version__,
        "tensorflow_federated": tff.__version__,
        "text": text,
        "arguments": {
            k: str(v)
            for k, v in vars(flags).items()
            if v is not None and not k.endswith(("python", "out"))
        },
        **run(
            make_clients,
            repeats=flags.repeats,
            parts=not flags.no_parts,
            pythons=pythons,
            threads=flags.threads,
        ),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if flags.out:
        flags.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
