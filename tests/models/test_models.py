"""All models against NumPy: forward pass, streaming step, gradients, initial values."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support.truth import model_truth
from tff_keyboard.models import MODELS, build_model
from tff_keyboard.models.layers.packing import pack
from tff_keyboard.models.recurrent_model import RecurrentModel
from tff_keyboard.models.softmax_loss import softmax_loss

VOCABULARY = 23
CASES = {
    "cifg": ("cifg", {"units": 7, "embedding_size": 5}, model_truth.cifg_step, [5, 7]),
    "si_cifg": ("si_cifg", {"units": 7, "embedding_size": 5}, model_truth.si_cifg_step, [5, 7]),
    "gru": ("gru", {"units": 6, "embedding_size": 5}, model_truth.gru_step, [6]),
    "gru tied": (
        "gru",
        {"units": 6, "embedding_size": 6, "tied": True},
        model_truth.gru_step,
        [6],
    ),
    "lstm2": ("lstm2", {"units": 6, "embedding_size": 5}, model_truth.lstm2_step, [6] * 4),
    "lstm2 tied": (
        "lstm2",
        {"units": 6, "embedding_size": 5, "tied": True},
        model_truth.lstm2_step,
        [6] * 4,
    ),
    "transformer": (
        "transformer",
        {
            "embedding_size": 6,
            "layers": 2,
            "heads": 2,
            "feed_forward_size": 7,
            "window": model_truth.WINDOW,
        },
        model_truth.transformer_step,
        [model_truth.WINDOW, *[model_truth.WINDOW * 6] * 4],
    ),
}


@pytest.fixture(params=CASES, name="case")
def _case(request):
    name, options, step, state_size = CASES[request.param]
    model = build_model(name, vocabulary_size=VOCABULARY, seed=1, **options)
    model_truth.randomise(model, np.random.default_rng(2))
    return model, step, state_size


def test_every_model_is_tested():
    assert {name for name, *_ in CASES.values()} == set(MODELS)


def numpy_logits(model, step, state_size, ids):
    """Computes [batch, time, vocabulary] float64 logits, one position at a time."""
    weights = model_truth.float64_weights(model)
    named = {
        v.name.split(":")[0]: w for v, w in zip(model.trainable_variables, weights, strict=True)
    }
    state = tuple(np.zeros([len(ids), size]) for size in state_size)
    logits = []
    for column in ids.T:
        hidden, state = step(weights, named["embedding"][column], state)
        if "projection" in named and model.name_in_registry == "lstm2":
            hidden = hidden @ named["projection"]
        table = named.get("output_table", named["embedding"])
        logits.append(hidden @ table.T + named.get("output_bias", 0.0))
    return np.stack(logits, axis=1)


def numpy_loss(model, step, state_size, batch):
    """Computes the mean of -log p over real targets, float64."""
    logits, targets = numpy_logits(model, step, state_size, batch[:, :-1]), batch[:, 1:]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_p, targets[..., np.newaxis], axis=-1)[..., 0]
    return -picked[targets != 0].mean()


@tf.function(reduce_retracing=True)
def fast_loss(model, batch):
    hidden, table, bias, targets = model.packed_hidden_at_targets(batch[:, :-1], batch[:, 1:])
    return tf.reduce_mean(softmax_loss(hidden, table, bias, targets)[0])


def test_logits_match_numpy_at_words_and_hidden_is_zero_at_padding(case):
    model, step, state_size = case
    ids = model_truth.random_batch(
        np.random.default_rng(0), batch=6, longest=7, vocabulary=VOCABULARY
    )
    expected = numpy_logits(model, step, state_size, ids)
    real = ids != 0
    np.testing.assert_allclose(model(ids).numpy()[real], expected[real], rtol=2e-5, atol=2e-5)
    assert not model.hidden(ids).numpy()[~real].any()


def test_step_streams_the_same_logits_and_pad_keeps_the_state(case):
    model, step, state_size = case
    ids = np.array([[1, 5, 0, 7], [1, 6, 4, 8]], np.int32)  # a PAD in the middle of a stream
    state = model.initial_state(2)
    assert [list(part.shape) for part in state] == [[2, size] for size in state_size]
    for column in ids.T:
        logits, state = model.step(tf.constant(column), state)
    without_pad = numpy_logits(model, step, state_size, np.array([[1, 5, 7]]))[0, -1]
    straight = numpy_logits(model, step, state_size, ids[1:])[0, -1]
    np.testing.assert_allclose(logits.numpy()[0], without_pad, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(logits.numpy()[1], straight, rtol=2e-5, atol=2e-5)


def test_gradient_matches_central_differences_in_float64(case):
    model, step, state_size = case
    rng = np.random.default_rng(3)
    batch = model_truth.random_batch(rng, batch=4, longest=6, vocabulary=VOCABULARY)
    loss, gradients = model_truth.mean_loss_and_gradient(
        model, lambda: fast_loss(model, tf.constant(batch))
    )
    np.testing.assert_allclose(loss, numpy_loss(model, step, state_size, batch), rtol=1e-5)

    exact = model_truth.float64_weights(model)
    for place, gradient in enumerate(gradients):
        direction = rng.normal(size=gradient.shape)
        losses = []
        for sign in (1, -1):
            moved = list(exact)
            moved[place] = exact[place] + sign * 1e-5 * direction
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(model_truth, "float64_weights", lambda _, moved=moved: moved)
                losses.append(numpy_loss(model, step, state_size, batch))
        slope = (losses[0] - losses[1]) / 2e-5
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-3, atol=1e-6)


def test_initial_weights_depend_on_the_seed_alone(case):
    model, _, _ = case
    build = functools.partial(build_model, model.name_in_registry)
    same = [build(vocabulary_size=VOCABULARY, seed=5, **model.options) for _ in range(2)]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        in_graph = build(vocabulary_size=VOCABULARY, seed=5, **model.options)
        session.run(tf.compat.v1.global_variables_initializer())
        from_graph = session.run(in_graph.trainable_variables)
    for first, second, third in zip(
        same[0].get_weights(), same[1].get_weights(), from_graph, strict=True
    ):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first, third)
    other = build(vocabulary_size=VOCABULARY, seed=6, **model.options)
    assert not np.array_equal(other.get_weights()[0], same[0].get_weights()[0])


def test_batch_without_a_target_has_no_positions(case):
    model, _, _ = case
    batch = tf.zeros([3, 4], tf.int32)
    hidden, _, _, targets = model.packed_hidden_at_targets(batch[:, :-1], batch[:, 1:])
    assert hidden.shape[0] == 0
    assert targets.shape[0] == 0


def test_initial_forget_gate_of_the_cifg():
    """Bias -1 at the input gate: f = 1 - i begins at 0.73."""
    cifg = build_model("cifg", vocabulary_size=VOCABULARY, seed=0, units=3, embedding_size=2)
    np.testing.assert_array_equal(cifg.bias, [-1, -1, -1, 0, 0, 0, 0, 0, 0])


def test_scale_of_a_gate_does_not_change_the_si_cifg():
    model = build_model("si_cifg", vocabulary_size=VOCABULARY, seed=0, units=7, embedding_size=5)
    model_truth.randomise(model, np.random.default_rng(2))
    ids = model_truth.random_batch(
        np.random.default_rng(0), batch=4, longest=6, vocabulary=VOCABULARY
    )
    before = model(ids).numpy()
    scale = np.repeat([3.0, 0.2, 10.0], 7).astype(np.float32)  # of the gates f, g, o
    for weight in (model.kernel, model.recurrent_kernel, model.bias):
        weight.assign(weight * scale)
    np.testing.assert_allclose(model(ids), before, rtol=1e-4, atol=1e-5)


def test_si_cifg_with_weights_of_zero_is_finite():
    model = build_model("si_cifg", vocabulary_size=VOCABULARY, seed=None, units=7, embedding_size=5)
    for variable in model.trainable_variables:
        variable.assign(tf.zeros_like(variable))
    batch = tf.constant([[1, 5, 6, 2]])
    loss, gradients = model_truth.mean_loss_and_gradient(model, lambda: fast_loss(model, batch))
    np.testing.assert_allclose(loss, np.log(VOCABULARY), rtol=1e-6)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_the_papers_sizes_and_parameter_counts():
    cifg = build_model("cifg", vocabulary_size=10_000, seed=0)
    assert cifg.count_params() == 1_412_250
    assert [(v.name.split(":")[0], v.shape.as_list()) for v in cifg.trainable_variables] == [
        ("embedding", [10_000, 96]),
        ("kernel", [96, 2010]),
        ("recurrent_kernel", [96, 2010]),
        ("bias", [2010]),
        ("projection", [670, 96]),
    ]
    assert build_model("si_cifg", vocabulary_size=10_000, seed=0).count_params() == 1_412_250
    gru = build_model("gru", vocabulary_size=100, seed=0)
    assert gru.count_params() == 2 * 100 * 300 + 2 * 300 * 900 + 2 * 900 + 100
    transformer = build_model("transformer", vocabulary_size=10_000, seed=0)
    layer = 96 * 3 * 96 + 96 * 96 + 96 * 384 + 384 + 384 * 96 + 96 + 4 * 96
    assert transformer.count_params() == 10_000 * 96 + 4 * layer + 2 * 96 == 1_406_016
    lstm2 = build_model("lstm2", vocabulary_size=100, seed=0)
    layers = (300 + 400) * 1600 + 1600 + (400 + 400) * 1600 + 1600
    assert lstm2.count_params() == 100 * 300 + layers + 100 * 400 + 100


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rnn", {}, "`model.type` must be one of"),
        ("cifg", {"tied": True}, "`model.tied` is not an option of 'cifg'"),
        ("gru", {"units": 4, "embedding_size": 5, "tied": True}, "`model.tied` requires"),
        ("gru", {"dropout": 1.0}, r"`model.dropout` must be in \[0, 1\)"),
        ("cifg", {"units": 0}, "`model.units` must be >= 1"),
        ("transformer", {"heads": 5}, "`model.heads` must divide `model.embedding_size`"),
        ("transformer", {"window": 0}, "`model.window` must be >= 1"),
        ("lstm2", {"embedding_size": -1}, "`model.embedding_size` must be >= 1"),
        ("cifg", {"vocabulary_size": 4}, "`vocabulary_size` must be > 4"),
    ],
)
def test_rejects(name, options, message):
    with pytest.raises(ValueError, match=message):
        build_model(name, **{"vocabulary_size": 9, "seed": 0, **options})


def test_the_gradient_written_by_hand_is_that_of_the_step_equations(case):
    """The default of `RecurrentModel` differentiates `step_hidden` itself."""
    model, _, _ = case
    batch = tf.constant(
        model_truth.random_batch(
            np.random.default_rng(4), batch=5, longest=7, vocabulary=VOCABULARY
        )
    )

    @tf.function
    def plain_loss():
        targets = batch[:, 1:]
        lengths = tf.math.count_nonzero(targets, axis=1, dtype=tf.int32)
        packing = pack(lengths, tf.shape(targets)[1])
        outputs = RecurrentModel.packed_hidden_and_table(model, batch[:, :-1], packing)
        return tf.reduce_mean(softmax_loss(*outputs, tf.gather_nd(targets, packing.positions))[0])

    loss, gradients = model_truth.mean_loss_and_gradient(model, lambda: fast_loss(model, batch))
    expected, plain = model_truth.mean_loss_and_gradient(model, plain_loss)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    for gradient, other in zip(gradients, plain, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-4, atol=1e-6)


def test_step_equations_without_a_target(case):
    model, _, _ = case
    packing = pack(tf.zeros([3], tf.int32), 4)
    hidden, _, _ = RecurrentModel.packed_hidden_and_table(model, tf.ones([3, 4], tf.int32), packing)
    assert hidden.shape[0] == 0
