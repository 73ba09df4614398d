r"""Times a federated round of own models: TFF's builder and ours, TFF's context and ours.

python -m tff_keyboard_lab.benchmarks.round.own_models --irc=STORE --sms=STORE --out=own_models.json

Each model trains on the same clients with plain SGD, in these ways:

  stock           TFF's `build_weighted_fed_avg` in TFF's own context, with its default loop
  stock_iterator  the same with `loop_implementation` = DATASET_ITERATOR, TFF's fastest loop
  local           TFF's builder in `tk.algorithms.local_context()`, with its default loop
  local_iterator  the same with DATASET_ITERATOR
  ours            `tk.algorithms.build_fed_avg` in `local_context()`

The Keras GRU also trains in other frameworks, if `--python` or `--jax-python` can import them, each
at its defaults and at its best setting (`contestants.peer_commands`). There it is PyTorch's own GRU
and a scan in JAX.

Models: our CIFG, the same with a gradient by automatic differentiation (`cifg_autodiff`), a Keras
GRU, a Keras transformer block and a linear model of the previous word. All have embeddings of
`--embedding` numbers, and the recurrent ones `--units` units.

Sizes: 1 and 13 messages of each of 50 clients of `--irc` in batches of 8, and 256 messages of each
of 8 clients of `--sms` in batches of 16, as in `round_sizes.py`. Without a store, messages are
random words.

Repeats of the ways alternate, so that other load on the machine affects all; look at the ratios.
The first round of each compiles and does not count. All ways start from the same weights and must
end a round with the same weights, to `TOLERANCE`, or the benchmark fails. Other frameworks must end
it with the same loss, to `LOSS_TOLERANCE`. The JSON file is written after each model and size.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import signal
import tempfile
from typing import Any

import numpy as np

from tff_keyboard_lab.benchmarks.round.contestants import (
    Answering,
    TffRound,
    peer_commands,
    write_for_others,
)
from tff_keyboard_lab.benchmarks.round.round_clients import num_tokens, store_clients
from tff_keyboard_lab.benchmarks.round.round_sizes import SIZES, Size, importable
from tff_keyboard_lab.benchmarks.round.step import autodiff_cifg_class, make_batches
from tff_keyboard_lab.tools import process_tree
from tff_keyboard_lab.tools.checkout import circumstances

LEARNING_RATE = 0.1
TOLERANCE = 1e-4  # of weights after a round, absolute
LOSS_TOLERANCE = 1e-4  # of other frameworks, relative
MODEL_OF_PEERS = "gru"
WAYS = {
    "stock": "TFF's builder and context",
    "stock_iterator": "TFF's builder and context, DATASET_ITERATOR",
    "local": "TFF's builder, `local_context()`",
    "local_iterator": "TFF's builder, `local_context()`, DATASET_ITERATOR",
    "ours": "our builder, `local_context()`",
}


def own_model_fn(layers):
    """Returns a TFF `model_fn` of a function that returns Keras layers, as in docs/library.md."""
    import tensorflow as tf
    import tensorflow_federated as tff

    def model_fn():
        spec = tf.TensorSpec([None, None], tf.int32)
        return tff.learning.models.from_keras_model(
            layers(),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
            input_spec=collections.OrderedDict(x=spec, y=spec),
        )

    return model_fn


def model_fns(vocabulary, units, dim):
    """Returns model -> TFF `model_fn`."""
    import tensorflow as tf

    from tff_keyboard.algorithms import variable_model

    sizes = {"vocabulary_size": vocabulary, "units": units, "embedding_size": dim}

    def autodiff_fn():
        model = autodiff_cifg_class()(**sizes, seed=None)
        return variable_model.NextWordVariableModel(
            model, weight_unit="tokens", evaluation=False, shares_first_step=False
        )

    def gru():
        return tf.keras.Sequential(
            [
                tf.keras.Input([None], dtype=tf.int32),
                tf.keras.layers.Embedding(vocabulary, dim),
                tf.keras.layers.GRU(units, return_sequences=True),
                tf.keras.layers.Dense(dim),
                tf.keras.layers.Dense(vocabulary),
            ]
        )

    def transformer():
        ids = tf.keras.Input([None], dtype=tf.int32)
        hidden = tf.keras.layers.Embedding(vocabulary, dim)(ids)
        normed = tf.keras.layers.LayerNormalization()(hidden)
        attention = tf.keras.layers.MultiHeadAttention(4, max(dim // 4, 1))
        hidden = hidden + attention(normed, normed, use_causal_mask=True)
        normed = tf.keras.layers.LayerNormalization()(hidden)
        wide = tf.keras.layers.Dense(4 * dim, activation="relu")(normed)
        hidden = hidden + tf.keras.layers.Dense(dim)(wide)
        return tf.keras.Model(ids, tf.keras.layers.Dense(vocabulary)(hidden))

    def linear():
        return tf.keras.Sequential(
            [
                tf.keras.Input([None], dtype=tf.int32),
                tf.keras.layers.Embedding(vocabulary, dim),
                tf.keras.layers.Dense(vocabulary),
            ]
        )

    return {
        "cifg": variable_model.build_model_fn("cifg", seed=1, **sizes),
        "cifg_autodiff": autodiff_fn,
        "gru": own_model_fn(gru),
        "transformer": own_model_fn(transformer),
        "linear": own_model_fn(linear),
    }


def mean_loss(model_fn, weights, clients):
    """Returns the loss of a TFF model over the real targets of all clients, in nats a target."""
    import tensorflow as tf

    model = model_fn()
    for variable, weight in zip(model.trainable_variables, weights, strict=True):
        variable.assign(weight)
    total = 0.0
    for client in clients:
        for batch in client:
            inputs = collections.OrderedDict(
                x=tf.constant(batch[:, :-1]), y=tf.constant(batch[:, 1:])
            )
            loss = float(model.forward_pass(inputs, training=False).loss)
            total += loss * np.count_nonzero(batch[:, 1:])
    return total / num_tokens(clients)


def time_ways(model_fn, clients, *, repeats, stock_context, local, peers=None):
    """Times a round of each way; see the module docstring.

    Args:
      model_fn: Builds the TFF model.
      clients: The batches of each client.
      repeats: Timed rounds of each way.
      stock_context: TFF's own context.
      local: Our context.
      peers: Framework -> Python that can import it, for `MODEL_OF_PEERS`.

    Returns:
      Way -> seconds of each round, the largest difference of a weight to "stock", and for other
      frameworks the loss after the round and the version.

    Raises:
      AssertionError: The weights or losses after a round differ.
    """
    import tensorflow_federated as tff

    from tff_keyboard.algorithms.fed_avg import build_fed_avg
    from tff_keyboard.data.batches import batches_dataset

    sgd = tff.learning.optimizers.build_sgdm
    loops = tff.learning.LoopImplementation
    datasets = [batches_dataset(client) for client in clients]

    def stock(loop):
        return tff.learning.algorithms.build_weighted_fed_avg(
            model_fn, sgd(LEARNING_RATE), sgd(1.0), loop_implementation=loop
        )

    ours = build_fed_avg(
        model_fn,
        client_optimizer=sgd(LEARNING_RATE),
        server_optimizer=sgd(1.0),
        aggregator=tff.aggregators.MeanFactory(),
        uniform_weights=False,
    )
    processes = {
        "stock": (stock(loops.DATASET_REDUCE), stock_context),
        "stock_iterator": (stock(loops.DATASET_ITERATOR), stock_context),
        "local": (stock(loops.DATASET_REDUCE), local),
        "local_iterator": (stock(loops.DATASET_ITERATOR), local),
        "ours": (ours, local),
    }
    tff.framework.set_default_context(local)
    initial = [
        0.1 * np.random.default_rng([7, n]).standard_normal(np.shape(weight)).astype(np.float32)
        for n, weight in enumerate(ours.get_model_weights(ours.initialize()).trainable)
    ]
    rounds: dict[str, Any] = {}
    for name, (process, context) in processes.items():
        rounds[name] = TffRound(process, datasets, context, [], initial)
        if context is stock_context:
            rounds[name].worker_pids = process_tree.descendants(os.getpid())
    seconds: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        peer_rounds = {}
        if peers:
            file = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "round.npz"
            write_for_others(file, initial, clients, LEARNING_RATE, MODEL_OF_PEERS)
            for framework, python in peers.items():
                for name, command in peer_commands(framework, python, file).items():
                    peer_rounds[name] = stack.enter_context(contextlib.closing(Answering(*command)))
        for repeat in range(repeats + 1):
            for name, one_round in {**rounds, **peer_rounds}.items():
                wall_seconds, _ = one_round()
                if repeat:  # the first one compiles
                    seconds.setdefault(name, []).append(wall_seconds)
        answers = {name: other.last for name, other in peer_rounds.items()}
    losses = {name: answer["loss"] for name, answer in answers.items()}
    if losses:
        losses["stock"] = mean_loss(model_fn, rounds["stock"].after, clients)
        losses["initial"] = mean_loss(model_fn, initial, clients)
    for name, loss in losses.items():
        is_equal = abs(loss / losses["stock"] - 1) < LOSS_TOLERANCE
        assert is_equal or name == "initial", f"losses after a round differ: {losses}"
    differences = {
        name: max(
            float(np.max(np.abs(np.asarray(a) - np.asarray(b)), initial=0.0))
            for a, b in zip(one_round.after, rounds["stock"].after, strict=True)
        )
        for name, one_round in rounds.items()
    }
    assert max(differences.values()) < TOLERANCE, f"weights after a round differ: {differences}"
    moved = max(
        float(np.max(np.abs(np.asarray(a) - b)))
        for a, b in zip(rounds["stock"].after, initial, strict=True)
    )
    assert moved > 10 * max(differences.values()), f"the round moved weights by {moved} only"
    versions = {name: answer["version"] for name, answer in answers.items()}
    return {
        "seconds": seconds,
        "differences": differences,
        **({"losses": losses, "versions": versions} if answers else {}),
    }


def random_clients(size: Size, longest, seed):
    """Returns clients with random words and the number of messages of a size."""
    full, messages_in_last = divmod(size.messages, size.batch_size)
    return [
        [
            *make_batches(full, size.batch_size, longest, [seed, n], False),
            *(
                make_batches(1, messages_in_last, longest, [seed, n, 1], False)
                if messages_in_last
                else []
            ),
        ]
        for n in range(size.clients)
    ]


def table(results: dict[str, Any]) -> str:
    """Returns a Markdown table of median seconds, and ratios to stock TFF at its best."""
    lines = [
        f"| model | messages | {' | '.join(WAYS)} | ours over best stock |",
        f"|---|---|{'---|' * len(WAYS)}---|",
    ]
    for model, sizes in results.items():
        for messages, result in sizes.items():
            medians = result["median_seconds"]
            cells = [f"{medians[way]:.3f}" for way in WAYS]
            best = min(medians["stock"], medians["stock_iterator"])
            cells.append(f"{best / medians['ours']:.1f}")
            lines.append(f"| {model} | {messages} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_peers(sizes: dict[str, Any]) -> str:
    """Returns a Markdown table of median seconds in other frameworks, or "" without them.

    Args:
      sizes: Messages -> result of `MODEL_OF_PEERS`.
    """
    names = [
        name
        for name in dict.fromkeys(n for result in sizes.values() for n in result["median_seconds"])
        if name not in WAYS
    ]
    if not names:
        return ""
    lines = [
        f"| messages | ours | {' | '.join(names)} | best other over ours |",
        f"|---|---|{'---|' * len(names)}---|",
    ]
    for messages, result in sizes.items():
        medians = result["median_seconds"]
        cells = [f"{medians[name]:.3f}" for name in ("ours", *names)]
        cells.append(f"{min(medians[name] for name in names) / medians['ours']:.1f}")
        lines.append(f"| {messages} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--irc", type=pathlib.Path, help="store of ubuntu_irc")
    parser.add_argument("--sms", type=pathlib.Path, help="store of NUS SMS")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--models", nargs="+", help="names of models; default: all")
    parser.add_argument("--clients", type=int, help="number of clients, for every size")
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--units", type=int, default=670)
    parser.add_argument("--embedding", type=int, default=96)
    parser.add_argument("--longest", type=int, default=20, help="largest number of targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--python", help="Python that can import torch, pfl and flwr")
    parser.add_argument("--jax-python", help="Python that can import jax and fedjax")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file")
    flags = parser.parse_args()

    peers, errors = importable(flags.python, flags.jax_python)
    for name, error in errors.items():
        print(f"{name} is skipped: {error}", flush=True)

    # As in `round.py`: TFF ends its server with a SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from tff_keyboard.host import quiet

    quiet.import_tensorflow_federated()
    import tensorflow as tf
    import tensorflow_federated as tff

    from tff_keyboard.algorithms.client_packing.local_context import local_context
    from tff_keyboard.data.store.client_store import ClientStore

    before = tff.framework.get_context_stack().current
    local = local_context()
    stock_context = tff.backends.native.create_sync_local_cpp_execution_context()
    fns = model_fns(flags.vocabulary, flags.units, flags.embedding)
    results: dict[str, Any] = {}
    content = {
        **circumstances(),
        "tensorflow": tf.__version__,
        "tensorflow_federated": tff.__version__,
        "arguments": {key: str(value) for key, value in vars(flags).items() if key != "out"},
        "models": results,
    }
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: tff.framework.set_default_context(before))
        for model in flags.models or list(fns):
            for messages in flags.sizes:
                size = SIZES[messages]
                size = size._replace(clients=flags.clients or size.clients)
                path = flags.irc if size.store == "irc" else flags.sms
                if path is None:
                    clients = random_clients(size, flags.longest, flags.seed)
                    oov = 3
                    clients = [
                        [np.where(batch < flags.vocabulary, batch, oov) for batch in client]
                        for client in clients
                    ]
                else:
                    clients = store_clients(
                        ClientStore(path),
                        size.clients,
                        size.messages,
                        size.batch_size,
                        flags.longest,
                        flags.seed,
                    )
                measured = time_ways(
                    fns[model],
                    clients,
                    repeats=flags.repeats,
                    stock_context=stock_context,
                    local=local,
                    peers=peers if model == MODEL_OF_PEERS else None,
                )
                measured["median_seconds"] = {
                    way: float(np.median(values)) for way, values in measured["seconds"].items()
                }
                measured |= {"clients": len(clients), "tokens": num_tokens(clients)}
                results.setdefault(model, {})[messages] = measured
                flags.out.write_text(json.dumps(content, indent=1) + "\n")
                print(model, messages, measured["median_seconds"], flush=True)
    print(table(results))
    print(table_of_peers(results.get(MODEL_OF_PEERS, {})))


if __name__ == "__main__":
    main()
