"""Training in the interpreter matches Keras: gradients, N steps, and the exchange of weights."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.keyboard import export_fakes
from tff_keyboard.data.vocabulary import BOS, EOS, OOV, PAD
from tflite_export.graphs import trainable
from tflite_export.graphs.cifg_weights import CifgWeights

WEIGHTS = CifgWeights.from_model(export_fakes.model())
V = WEIGHTS.vocabulary_size
MESSAGES = [
    [BOS, *export_fakes.vocabulary().encode(sentence.split()), EOS]
    for sentence in export_fakes.SENTENCES
]


@pytest.fixture(scope="module")
def data():
    return trainable.build(WEIGHTS, top_k=3)


@pytest.fixture
def file(data):
    """Returns a fresh interpreter for each test, because training changes it."""
    interpreter = tf.lite.Interpreter(model_content=data, num_threads=1)
    return interpreter.get_signature_runner


def as_tokens(message):
    return np.array([message], np.int32)


def numpy_loss(weights, message):
    """Returns the mean of -log p(target) in float64, without targets that are PAD."""
    table = weights["embedding"].astype(np.float64)
    truth = export_fakes.NumpyCifg(
        CifgWeights(
            embedding=table,
            kernels=tuple(np.split(weights["kernel"], 3, axis=1)),
            recurrent_kernels=tuple(np.split(weights["recurrent_kernel"], 3, axis=1)),
            biases=tuple(np.split(weights["bias"], 3)),
            projection=weights["projection"],
        )
    )
    logits = truth.logits(message[:-1])
    logits -= logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    losses = [-log_p[t, target] for t, target in enumerate(message[1:]) if target != PAD]
    return np.mean(losses) if losses else 0.0


@pytest.mark.parametrize("name", trainable.WEIGHT_NAMES)
def test_gradients_are_the_slope_of_the_loss(name):
    """Uses central differences in float64, along random directions."""
    random = np.random.default_rng(0)
    weights = {k: v.astype(np.float64) for k, v in trainable.joined_weights(WEIGHTS).items()}
    message = np.array([BOS, 7, 9, 7, OOV, 12, EOS, PAD, PAD], np.int32)
    _, gradients = trainable.loss_and_gradients(
        {k: tf.constant(v, tf.float32) for k, v in weights.items()}, tf.constant(message)
    )
    for _ in range(3):
        direction = random.normal(size=weights[name].shape)
        reach = 1e-5
        slope = (
            numpy_loss(weights | {name: weights[name] + reach * direction}, message)
            - numpy_loss(weights | {name: weights[name] - reach * direction}, message)
        ) / (2 * reach)
        got = float(np.sum(gradients[name].numpy().astype(np.float64) * direction))
        assert got == pytest.approx(slope, rel=1e-3, abs=1e-4)


def keras_steps(messages, learning_rate):
    """Trains the library's model with Keras SGD on its cross-entropy, from the stored weights."""
    model = export_fakes.model()
    stored = export_fakes.stored_weights(WEIGHTS)
    for variable, name in zip(model.trainable_variables, trainable.WEIGHT_NAMES, strict=True):
        assert name in variable.name
        variable.assign(stored[name])
    optimizer = tf.keras.optimizers.legacy.SGD(learning_rate)
    losses = []
    for message in messages:
        ids = tf.constant([message], tf.int32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(ids[0, 1:], model(ids[:, :-1])[0])
            )
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        losses.append(float(loss))
    return losses, dict(
        zip(trainable.WEIGHT_NAMES, [v.numpy() for v in model.trainable_variables], strict=True)
    )


@pytest.mark.slow
def test_many_steps_in_the_interpreter_equal_keras_sgd(file):
    messages = MESSAGES * 5  # 30 steps
    train = file("train")
    rate = np.array(0.1, np.float32)
    losses = [float(train(tokens=as_tokens(m), learning_rate=rate)["loss"]) for m in messages]
    expected_losses, expected = keras_steps(messages, 0.1)
    assert expected_losses[-1] < 0.7 * expected_losses[0]
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    got = file("weights")()
    for name in trainable.WEIGHT_NAMES:
        assert np.abs(got[name] - export_fakes.stored_weights(WEIGHTS)[name]).max() > 1e-3
        np.testing.assert_allclose(got[name], expected[name], atol=1e-4)


def test_padding_does_not_train(data):
    def trained(message):
        run = tf.lite.Interpreter(model_content=data).get_signature_runner
        loss = run("train")(tokens=as_tokens(message), learning_rate=np.array(0.5, np.float32))
        return float(loss["loss"]), run("weights")()

    loss, weights = trained(MESSAGES[0])
    padded_loss, padded = trained([*MESSAGES[0], PAD, PAD, PAD])
    assert padded_loss == pytest.approx(loss, abs=1e-6)
    for name, value in weights.items():
        np.testing.assert_allclose(padded[name], value, atol=1e-6)


@pytest.mark.parametrize("message", [[BOS], [BOS, PAD], [BOS, PAD, PAD]])
def test_nothing_to_learn_changes_nothing(file, message):
    out = file("train")(tokens=as_tokens(message), learning_rate=np.array(0.5, np.float32))
    assert float(out["loss"]) == 0.0
    stored = export_fakes.stored_weights(WEIGHTS)
    for name, value in file("weights")().items():
        np.testing.assert_array_equal(value, stored[name])


def test_ids_out_of_range_train_oov(data):
    def trained(word_id):
        run = tf.lite.Interpreter(model_content=data).get_signature_runner
        tokens = as_tokens([BOS, 7, word_id, EOS])
        run("train")(tokens=tokens, learning_rate=np.array(0.5, np.float32))
        return run("weights")()["embedding"]

    np.testing.assert_array_equal(trained(V + 5), trained(OOV))


def test_a_batch_is_rejected(file):
    with pytest.raises(RuntimeError):
        file("train")(
            tokens=np.array([[BOS, 5, EOS], [BOS, 6, EOS]], np.int32),
            learning_rate=np.array(0.1, np.float32),
        )


def test_weights_go_out_and_come_back(file):
    random = np.random.default_rng(0)
    given = {
        name: random.normal(size=value.shape).astype(np.float32)
        for name, value in trainable.joined_weights(WEIGHTS).items()
    }
    file("set_weights")(**given)
    got = file("weights")()
    for name, value in given.items():
        np.testing.assert_array_equal(got[name], value)


def test_training_changes_what_is_suggested(file):
    tokens = as_tokens(MESSAGES[0])
    before = file("predict")(tokens=tokens[:, :-1])
    for _ in range(150):
        file("train")(tokens=tokens, learning_rate=np.array(0.1, np.float32))
    best = [
        file("predict")(tokens=tokens[:, :end])["ids"][0, 0]
        for end in range(1, tokens.shape[1] - 1)
    ]
    assert np.mean(best == tokens[0, 1:-1]) >= 0.8
    assert not np.array_equal(file("predict")(tokens=tokens[:, :-1])["new_h"], before["new_h"])
