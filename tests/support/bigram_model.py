"""The smallest model that TFF can train, its batches, and plain FedAvg on it."""

import collections
import functools

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

VOCABULARY = 7


INPUT_SPEC = collections.OrderedDict(
    x=tf.TensorSpec([None, None], tf.int32), y=tf.TensorSpec([None, None], tf.int32)
)


SGD = tff.learning.optimizers.build_sgdm


class BigramModel(tff.learning.models.VariableModel):
    """Logits = row of a table + bias. Two variables: two layers."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.table = tf.Variable(
            np.float32(rng.normal(size=[VOCABULARY, VOCABULARY])), name="table"
        )
        self.bias = tf.Variable(np.float32(rng.normal(size=[VOCABULARY])), name="bias")

    trainable_variables = property(lambda self: [self.table, self.bias])
    non_trainable_variables = property(lambda self: [])
    local_variables = property(lambda self: [])
    input_spec = property(lambda self: INPUT_SPEC)

    @tf.function
    def predict_on_batch(self, x, training=True):
        return tf.gather(self.table, x) + self.bias

    @tf.function
    def forward_pass(self, batch_input, training=True):
        real = tf.cast(tf.not_equal(batch_input["y"], 0), tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch_input["y"], self.predict_on_batch(batch_input["x"])
        )
        tokens = tf.reduce_sum(real)
        return tff.learning.models.BatchOutput(
            loss=tf.math.divide_no_nan(tf.reduce_sum(losses * real), tokens),
            predictions=None,
            num_examples=tf.cast(tokens, tf.int64),
        )

    @tf.function
    def report_local_unfinalized_metrics(self):
        return collections.OrderedDict()

    def metric_finalizers(self):
        return collections.OrderedDict()

    def reset_metrics(self):
        pass


def batches(seed, count=2, trap=None):
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        ids = rng.integers(1, VOCABULARY, [3, 6]).astype(np.int32)
        ids[0, 4:] = 0
        ids[0, 0] = trap or 1
        result.append(collections.OrderedDict(x=ids[:, :-1], y=ids[:, 1:]))
    return result


def dataset(batch_list):
    """The batches as TFF wants them: of unknown size, no Python in the graph."""
    together = batch_list or batches(0, 1)
    stacked = collections.OrderedDict(
        (name, np.concatenate([batch[name] for batch in together])) for name in ("x", "y")
    )
    data = tf.data.Dataset.from_tensor_slices(stacked).batch(3).take(len(batch_list))
    unsized = tf.compat.v1.placeholder_with_default
    return data.map(
        lambda batch: collections.OrderedDict(
            (name, unsized(ids, [None, None])) for name, ids in batch.items()
        )
    )


@functools.cache
def fed_avg():
    return tff.learning.algorithms.build_weighted_fed_avg(BigramModel, SGD(0.5))


def step_of(process, clients):
    state = process.initialize()
    before = process.get_model_weights(state).trainable
    output = process.next(state, [dataset(c) for c in clients])
    after = process.get_model_weights(output.state).trainable
    return [np.asarray(b) - a for b, a in zip(before, after, strict=True)], output


def gradient(weights, batch):
    """The gradient of the mean loss over a batch's tokens, and their number; float64 NumPy."""
    table, bias = weights
    real = batch["y"] != 0
    logits = table[batch["x"]] + bias
    errors = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    errors -= np.eye(VOCABULARY)[batch["y"]]
    errors *= real[..., None] / real.sum()
    of_table = np.zeros_like(table)
    np.add.at(of_table, batch["x"], errors)
    return [of_table, errors.sum((0, 1))], real.sum()


def initial_weights():
    """The weights of a new `BigramModel`, float64."""
    model = BigramModel()
    return [np.float64(variable.numpy()) for variable in model.trainable_variables]


def process_parts(**changes):
    """The parts of a process with the plain mean, and SGD with rate 1 on the server."""
    from tff_keyboard.parts.aggregator import AggregatorRun
    from tff_keyboard.parts.client_algorithm import ProcessParts

    parts = {
        "model_fn": BigramModel,
        "vocabulary_size": VOCABULARY,
        "run": AggregatorRun(clients_per_round=3),
        "aggregator": tff.aggregators.MeanFactory(no_nan_division=True),
        "build_rule_process": None,
        "uniform_weights": False,
        "corrects_rows": False,
        "server_optimizer": SGD(1.0),
        "wrap_client_work": None,
        "joined": False,
    }
    return ProcessParts(**{**parts, **changes})


def weights_after(process, rounds):
    """The trainable weights after each of the rounds: lists of clients, each a list of batches."""
    state = process.initialize()
    weights_of_rounds = []
    for clients in rounds:
        state = process.next(state, [dataset(client) for client in clients]).state
        weights_of_rounds.append(
            [np.asarray(w) for w in process.get_model_weights(state).trainable]
        )
    return weights_of_rounds


def assert_close(rounds, expected, *, rtol=1e-5, atol=1e-6):
    """Checks the weights after each round, lists of arrays."""
    for weights, others in zip(rounds, expected, strict=True):
        for a, b in zip(weights, others, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
