"""A user's Keras model: weights, values, streaming, gradients, saving, and all that is refused."""

import hashlib
import json
import json.tool
import os
import pathlib
import pickle
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.support.truth import model_truth
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.models import build_model, keras_next_word_model
from tff_keyboard.models.distillation_loss import soft_softmax_loss
from tff_keyboard.models.initial_weights import assign_initial_weights
from tff_keyboard.models.keras_next_word_model import as_next_word_model, push
from tff_keyboard.models.saved_model import load_model, save_model, weights_by_name
from tff_keyboard.models.softmax_loss import softmax_loss
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage.errors import ConfigError, SavedModelError

FILE = pathlib.Path(__file__).parents[1] / "support" / "user_models.py"
SIZE = 12
NAMES = ["gru", "attention", "Streaming", "Elman"]
RNG = np.random.default_rng(0)
IDS = RNG.integers(4, SIZE, [2, 40]).astype(np.int32)


def reference(name):
    return f"{FILE}:{name}"


def build(name="gru", seed=3, size=SIZE, **options):
    return build_model(reference(name), vocabulary_size=size, seed=seed, **options)


def words(*more):
    return Vocabulary((*SPECIAL_WORDS, *"abcdefgh"[: 8 - len(more)], *more), NormalisationRules())


@pytest.mark.parametrize("name", NAMES)
def test_initial_weights_depend_on_the_seed_alone(name):
    random.seed(1)
    np.random.seed(1)
    tf.random.set_seed(1)
    first = build(name).get_weights()
    drawn = random.random(), np.random.random(), float(tf.random.uniform([]))
    random.seed(2)
    second = build(name).get_weights()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        in_graph = build(name)
        zeros = build(name, seed=None)
        session.run(tf.compat.v1.global_variables_initializer())
        third = session.run(in_graph.trainable_variables)
        of_zeros = session.run(zeros.trainable_variables)
    for a, b, c, zero in zip(first, second, third, of_zeros, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
        assert not zero.any()
    assert not np.array_equal(build(name, seed=4).get_weights()[0], first[0])
    # The caller's generators go on as if nothing had been built.
    random.seed(1)
    np.random.seed(1)
    tf.random.set_seed(1)
    assert drawn == (random.random(), np.random.random(), float(tf.random.uniform([])))


@pytest.mark.parametrize("name", NAMES)
def test_step_streams_the_logits_of_the_whole_message(name):
    model = build(name)
    whole = model(IDS).numpy()
    state = model.initial_state(2)
    for place, column in enumerate(IDS.T):
        _, unchanged = model.step(tf.zeros([2], tf.int32), state)
        for before, after in zip(state, unchanged, strict=True):
            np.testing.assert_array_equal(before, after)
        logits, state = model.step(tf.constant(column), state)
        np.testing.assert_allclose(logits, whole[:, place], rtol=1e-4, atol=1e-5)


def test_a_model_without_step_reads_its_last_words_only():
    model = build("attention")
    assert model.window == 6
    other = IDS.copy()
    other[:, :20] = 5
    seen = slice(20 + model.window - 1, None)
    first, second = (model(ids).numpy() for ids in (IDS, other))
    np.testing.assert_allclose(first[:, seen], second[:, seen], rtol=1e-5, atol=1e-5)
    assert np.abs(first[:, 20] - second[:, 20]).max() > 1e-4


def test_push_keeps_the_last_words():
    window = tf.zeros([2, 3], tf.int32)
    for ids in ([1, 1], [5, 0], [6, 7], [8, 0], [0, 9], [0, 4]):
        window = push(window, tf.constant(ids))
    np.testing.assert_array_equal(window, [[5, 6, 8], [7, 9, 4]])


@pytest.mark.parametrize("name", NAMES)
def test_loss_and_gradients_are_those_of_keras_cross_entropy(name):
    model = build(name)
    batch = model_truth.random_batch(RNG, batch=4, longest=5, vocabulary=SIZE)
    ids, targets = tf.constant(batch[:, :-1]), tf.constant(batch[:, 1:])

    @tf.function
    def loss_of_model():
        hidden, table, bias, at = model.packed_hidden_at_targets(ids, targets)
        return tf.reduce_mean(softmax_loss(hidden, table, bias, at)[0])

    def textbook():
        mask = tf.cast(targets != 0, tf.float32)
        losses = tf.keras.losses.sparse_categorical_crossentropy(targets, model(ids), True)
        return tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)

    loss, gradients = model_truth.mean_loss_and_gradient(model, loss_of_model)
    expected, expected_gradients = model_truth.mean_loss_and_gradient(model, textbook)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-4, atol=1e-6)


def test_training_has_the_masks_of_dropout_and_repeats_them():
    model = build("attention")
    targets = tf.constant(IDS[:, :5])
    first, second, plain = (
        model.packed_hidden_at_targets(targets, targets, training)[0].numpy()
        for training in (True, True, False)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, plain)


def test_distillation_loss_of_logits_matches_numpy():
    logits = RNG.normal(size=[5, 7])
    targets = RNG.integers(0, 7, 5)
    soft = RNG.dirichlet(np.ones(7), 5)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    true = -log_p[np.arange(5), targets]
    expected = 0.3 * true - 0.7 * (soft * log_p).sum(1)
    losses, true_losses, is_best = soft_softmax_loss(
        tf.constant(logits, tf.float32),
        None,
        None,
        tf.constant(targets, tf.int32),
        tf.constant(soft, tf.float32),
        0.3,
    )
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(true_losses, true, rtol=1e-5)
    np.testing.assert_array_equal(is_best, logits.argmax(1) == targets)


def test_weight_names_do_not_depend_on_models_built_before():
    names = list(weights_by_name(build("gru")))
    tf.keras.layers.Dense(2)
    assert list(weights_by_name(build("gru", seed=5))) == names
    assert names == [
        "embedding.embeddings",
        "gru.gru_cell.kernel",
        "gru.gru_cell.recurrent_kernel",
        "gru.gru_cell.bias",
        "dense.kernel",
        "dense.bias",
    ]


@pytest.fixture(name="source")
def _source(tmp_path):
    path = tmp_path / "code" / "my_models.py"
    path.parent.mkdir()
    shutil.copy(FILE, path)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load(name, tmp_path, source):
    model = build_model(f"{source}:{name}", vocabulary_size=SIZE, seed=1, units=4)
    save_model(tmp_path / "run" / "model", model, words())
    loaded, vocabulary = load_model(tmp_path / "run")
    assert vocabulary == words()
    assert loaded.architecture == model.architecture
    np.testing.assert_array_equal(loaded(IDS), model(IDS))
    copy = pickle.loads(pickle.dumps(KerasPredictor(loaded, vocabulary)))
    np.testing.assert_array_equal(
        copy.log_probabilities(IDS), KerasPredictor(model, words()).log_probabilities(IDS)
    )


def test_another_source_is_refused_before_it_runs(tmp_path, source):
    save_model(
        tmp_path / "model", build_model(f"{source}:gru", vocabulary_size=SIZE, seed=1), words()
    )
    source.write_text("raise AssertionError('this must not run')")
    with pytest.raises(SavedModelError, match="has changed since the training") as caught:
        load_model(tmp_path / "model")
    assert "\n" not in str(caught.value)


def change_description(directory, **changes):
    path = directory / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def source_of(path):
    return {"version": "", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


EVIL = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"


@pytest.mark.parametrize("place", ["run/model", "run", ".", "code_of_another_person", "link"])
@pytest.mark.parametrize("is_relative", [False, True])
def test_code_of_another_person_never_runs(tmp_path, source, monkeypatch, place, is_relative):
    """A model names a function that this user never named, wherever its file is."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "run" / "model"
    save_model(directory, build_model(f"{source}:gru", vocabulary_size=SIZE, seed=1), words())
    folder = tmp_path / place
    if place == "link":
        folder.symlink_to("/proc/self/cwd/run")
    folder.mkdir(exist_ok=True)
    evil = folder / "evil.py"
    evil.write_text(EVIL + source.read_text())
    name = os.path.relpath(evil) if is_relative else str(evil)
    change_description(directory, name=f"{name}:gru", source=source_of(evil))
    for loaded in ("run", "run/model"):
        with pytest.raises(SavedModelError, match="no code is run that only a model or a run"):
            load_model(tmp_path / loaded)
    # A relative path would name another file in each folder.
    monkeypatch.setenv("TFF_KEYBOARD_TRUST", os.path.relpath(evil))
    with pytest.raises(SavedModelError, match="no code is run that only a model or a run"):
        load_model(directory)
    assert not list(tmp_path.rglob("*.ran"))
    monkeypatch.setenv("TFF_KEYBOARD_TRUST", f"other:{evil}")
    load_model(directory)
    assert list(tmp_path.rglob("*.ran"))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("tff_keyboard.models.keras_next_word_model:build_user_model", keras_next_word_model),
        ("json.tool:main", json.tool),
        ("numpy.testing._private.utils:runstring", np.testing._private.utils),
    ],
)
def test_no_function_of_a_library_is_a_model(tmp_path, source, name, code):
    directory = tmp_path / "model"
    save_model(directory, build_model(f"{source}:gru", vocabulary_size=SIZE, seed=1), words())
    change_description(
        directory,
        name=name,
        options={"reference": f"{source}:gru", "options": {}},
        source=source_of(pathlib.Path(code.__file__)),
    )
    with pytest.raises(SavedModelError, match="no code is run"):
        load_model(directory)


def test_another_function_of_a_file_that_was_named_does_not_run(tmp_path, source):
    directory = tmp_path / "model"
    source.write_text(source.read_text() + "\ndef other(vocabulary_size): raise SystemExit(9)\n")
    save_model(directory, build_model(f"{source}:gru", vocabulary_size=SIZE, seed=1), words())
    change_description(directory, name=f"{source}:other")
    with pytest.raises(SavedModelError, match="no code is run"):
        load_model(directory)


def test_a_user_s_model_loads_no_other_code_that_a_file_names(tmp_path, source):
    directory = tmp_path / "model"
    outer = tmp_path / "outer.py"
    outer.write_text(
        "from tff_keyboard.models.model_factory import build_model\n"
        "def outer(vocabulary_size, inner):\n"
        "    return build_model(inner, vocabulary_size=vocabulary_size, seed=0)\n"
    )
    options = {"inner": f"{source}:gru"}
    model = build_model(f"{outer}:outer", vocabulary_size=SIZE, seed=1, **options)
    save_model(directory, model, words())
    (directory / "evil.py").write_text(EVIL)
    change_description(
        directory,
        name=f"{outer}:outer",
        options={"inner": f"{directory / 'evil.py'}:gru"},
        source=source_of(outer),
    )
    with pytest.raises(SavedModelError, match="no code is run"):
        load_model(directory)
    assert not list(tmp_path.rglob("*.ran"))


def test_a_package_next_to_a_model_is_not_imported(tmp_path, source, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    directory = tmp_path / "nice_model"
    save_model(directory, build_model(f"{source}:gru", vocabulary_size=SIZE, seed=1), words())
    (directory / "__init__.py").write_text(EVIL)
    shutil.copy(source, directory / "code.py")
    change_description(directory, name="nice_model.code:gru")
    with pytest.raises(SavedModelError, match="no code is run"):
        load_model(directory)
    assert not list(tmp_path.rglob("*.ran"))


def test_code_next_to_a_model_that_is_in_no_run(tmp_path, source):
    mine = shutil.copy(source, tmp_path / "my_models.py")
    save_model(
        tmp_path / "model", build_model(f"{mine}:gru", vocabulary_size=SIZE, seed=1), words()
    )
    assert load_model(tmp_path / "model")[0].name_in_registry == f"{mine}:gru"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": None}, "field 'source'"),
        ({"source": {"sha256": 5}}, "field 'source'"),
        ({"name": "nowhere.py:gru"}, "code of the model cannot be used"),
        ({"name": "no_such_module_here:gru"}, "code of the model cannot be used"),
        ({"name": "a:b:c"}, "code of the model cannot be used"),
    ],
)
def test_damaged_descriptions(tmp_path, source, change, message):
    save_model(
        tmp_path / "model", build_model(f"{source}:gru", vocabulary_size=SIZE, seed=1), words()
    )
    change_description(tmp_path / "model", **change)
    with pytest.raises(SavedModelError, match=message):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("name", NAMES)
def test_initial_weights_from_a_model_with_other_words(name, tmp_path):
    saved = build(name, seed=1)
    save_model(tmp_path / "model", saved, words())
    new = words("x", "y")
    model = build(name, seed=2)
    drawn = model.get_weights()
    assert assign_initial_weights(model, tmp_path / "model", new) == 6
    known = [i for i, word in enumerate(new.words) if word not in "xy"]
    for value, old, first, axes in zip(
        model.get_weights(), saved.get_weights(), drawn, model.word_axes, strict=True
    ):
        if not axes:
            np.testing.assert_array_equal(value, old)
            continue
        (axis,) = axes
        np.testing.assert_array_equal(np.take(value, known, axis), np.take(old, known, axis))
        np.testing.assert_array_equal(
            np.take(value, [SIZE - 2, SIZE - 1], axis), np.take(first, [SIZE - 2, SIZE - 1], axis)
        )


def test_a_keras_model_as_an_object_shares_its_weights():
    keras = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(SIZE, 4),
            tf.keras.layers.LSTM(4, return_sequences=True),
            tf.keras.layers.Dense(SIZE),
        ]
    )
    model = as_next_word_model(keras, SIZE)
    np.testing.assert_allclose(model(IDS[:, :9]), keras(IDS[:, :9]), atol=1e-6)
    keras.trainable_variables[0].assign_add(tf.ones([SIZE, 4]))
    np.testing.assert_allclose(model(IDS[:, :9]), keras(IDS[:, :9]), atol=1e-6)
    for use in (
        lambda: save_model("nowhere", model, words()),
        lambda: save_model("nowhere", keras, words()),
        lambda: pickle.dumps(KerasPredictor(model, words())),
    ):
        with pytest.raises(ValueError, match="build_model"):
            use()


BAD = """
import tensorflow as tf
L = tf.keras.layers

def ok(vocabulary_size, *more):
    return [L.Embedding(vocabulary_size, 3), *more, L.Dense(vocabulary_size)]

def after(*layers):
    return lambda vocabulary_size: tf.keras.Sequential([*ok(vocabulary_size), *layers])

def between(*layers):
    return lambda vocabulary_size: tf.keras.Sequential(ok(vocabulary_size, *layers))

def shape(vocabulary_size): return tf.keras.Sequential(ok(vocabulary_size)[:-1])
def raises(vocabulary_size): raise RuntimeError("my\\nown")
def nothing(vocabulary_size): return None
def no_size(units): return None
def needs(vocabulary_size, layers): return None
flat = between(L.GlobalAveragePooling1D())
both = between(L.Bidirectional(L.GRU(3, return_sequences=True)))
batch_norm = between(L.BatchNormalization())
dropout = between(L.Dropout(0.1))
half = after(L.Lambda(lambda x: tf.cast(x, tf.float16)))
nan = after(L.Lambda(lambda x: x * float("nan")))
whole = after(L.Lambda(lambda x: tf.cast(x, tf.int32)))

class Two(tf.keras.Model):
    def __init__(self, vocabulary_size):
        super().__init__()
        self.inner = tf.keras.Sequential(ok(vocabulary_size))
    def call(self, ids, training=None): return self.inner(ids)

class Pair(Two):
    def call(self, ids, training=None): return self.inner(ids), ids
class CallRaises(Two):
    def call(self, ids, training=None): raise KeyError("no")
class Lazy(Two):
    def call(self, ids, training=None):
        if training and not hasattr(self, "late"): self.late = self.add_weight("late", [1])
        return self.inner(ids)
class Unused(Two):
    def __init__(self, vocabulary_size):
        super().__init__(vocabulary_size)
        self.spare = self.add_weight("spare", [1])
class Hidden(Two):
    def call(self, ids, training=None): return self.inner(ids) + HIDDEN
HIDDEN = tf.Variable(1.0)
class Window(Two):
    window = 0
class NoState(Two):
    def step(self, ids, state): return self.inner(ids[:, None])[:, 0], state
class IntState(NoState):
    def initial_state(self, batch_size): return tf.zeros([batch_size, 1], tf.int32)
class OtherStep(NoState):
    def initial_state(self, batch_size): return tf.zeros([batch_size, 1])
    def step(self, ids, state): return 2 * self.inner(ids[:, None])[:, 0], state
class OtherState(OtherStep):
    def step(self, ids, state): return self.inner(ids[:, None])[:, 0], [state, state]
class NormStep(OtherStep):
    def __init__(self, vocabulary_size):
        super().__init__(vocabulary_size)
        self.norm = L.LayerNormalization()
    def call(self, ids, training=None): return self.norm(self.inner(ids))
    def step(self, ids, state):
        return self.norm(self.inner(ids[:, None])[:, 0]), state
class ShortStep(OtherStep):
    def step(self, ids, state): return self.inner(ids[:, None])[:, 0, :3], state

from tff_keyboard.models.gru import Gru

class OurDropout(Gru):
    def packed_hidden_at_targets(self, ids, targets, training=None):
        hidden, *more = super().packed_hidden_at_targets(ids, targets, training)
        return tf.nn.dropout(hidden, 0.5) if training else hidden, *more

def our_dropout(vocabulary_size, seed):
    return OurDropout(vocabulary_size=vocabulary_size, seed=seed, units=3, tied=False)

class Python(tf.keras.Model):
    def __init__(self, vocabulary_size):
        super().__init__()
        self.inner = tf.keras.Sequential(ok(vocabulary_size))
    def call(self, ids, training=None):
        logits = self.inner(ids)
        same = tf.py_function(lambda x: x, [tf.zeros([])], tf.float32)
        same.set_shape([])
        return logits + same
"""


@pytest.mark.parametrize(
    ("attribute", "options", "message"),
    [
        ("shape", {}, r"returns logits \[2, 3, 3\] where \[2, 3, 12\] is required"),
        ("flat", {}, r"returns logits \[2, 12\] where"),
        ("raises", {}, "raised RuntimeError: my own"),
        ("nothing", {}, "must be a tf.keras.Model, got NoneType"),
        ("no_size", {"units": 3}, "must take an argument `vocabulary_size`"),
        ("needs", {}, "needs the option `model.layers`"),
        ("shape", {"widht": 4}, "`model.widht` is not an option of"),
        ("both", {}, "reads words that come after a position"),
        ("batch_norm", {}, "is not trainable"),
        ("dropout", {}, "tff_keyboard.models.Dropout"),
        ("our_dropout", {}, "tff_keyboard.models.Dropout"),
        ("Python", {}, "calls Python in training"),
        ("half", {}, "float16, but logits must be float32"),
        ("whole", {}, "int32, but logits must be float32"),
        ("nan", {}, "NaN or infinite"),
        ("Pair", {}, "returns tuple, but must return one tensor"),
        ("CallRaises", {}, r"`call`: .*bad.py, line \d+ raised KeyError"),
        ("Lazy", {}, "creates weights after its first call"),
        ("Unused", {}, "do not depend on the weight 'spare:0'"),
        ("Hidden", {}, "not one of its trainable weights"),
        ("Window", {}, "`window` must be an int >= 1"),
        ("NoState", {}, "also needs `initial_state"),
        ("IntState", {}, "`initial_state.1.` must be float32"),
        ("OtherStep", {}, "`step` gives other logits"),
        ("OtherState", {}, "`step`: .*raised"),
        ("NormStep", {}, r"`step`: .*bad.py, line 65 raised IndexError: .*normalization.*out of"),
        ("ShortStep", {}, r"`step` returns logits \[2, 3\]"),
    ],
)
def test_rejects_in_one_line(tmp_path, attribute, options, message):
    path = tmp_path / "bad.py"
    path.write_text(BAD)
    with pytest.raises(ConfigError, match=message) as caught:
        build_model(f"{path}:{attribute}", vocabulary_size=SIZE, seed=1, **options)
    assert "\n" not in str(caught.value)
    assert f"{path}:{attribute}" in str(caught.value)


PLACES = """
import tensorflow as tf
L = tf.keras.layers

class Long(tf.keras.Model):
    def __init__(self, vocabulary_size):
        super().__init__()
        self.words = L.Embedding(vocabulary_size, vocabulary_size)
        self.places = L.Embedding(10, vocabulary_size)
    def call(self, ids, training=None):
        return self.words(ids) + self.places(tf.range(tf.shape(ids)[1]))

class Rare(Long):
    def call(self, ids, training=None):
        return tf.where(tf.equal(ids, 7)[..., None], float("nan"), super().call(ids))
"""


def test_every_word_is_read_in_messages_of_the_largest_length(tmp_path):
    path = tmp_path / "places.py"
    path.write_text(PLACES)
    model = build_model(f"{path}:Long", vocabulary_size=SIZE, seed=1)
    model.check_every_word(10)
    with pytest.raises(
        ConfigError, match=r"of 11 words .* raised Inv.*: indices\[10\] = 10 is not"
    ):
        model.check_every_word(11)
    with pytest.raises(ConfigError, match="word with id 7 are NaN") as caught:
        build_model(f"{path}:Rare", vocabulary_size=SIZE, seed=1).check_every_word(10)
    assert "\n" not in str(caught.value)
