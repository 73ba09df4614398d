"""One keyboard in eight threads: no crash, and the results of one thread."""

import pickle

import numpy as np
import pytest

from tests.support.keyboard.export_fakes import export, save_run
from tests.support.keyboard.threads import in_threads
from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.predictors.locking import Lock
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.hybrid_keyboard import HybridKeyboardPredictor, open_keyboard
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor
from tflite_export.runtime.training_step import train_message

MODEL = "models/base/keyboard.tflite"
TEXTS = [
    *("See you ", "see you at the st", "I am going to the ", "what do you ", "thnk you ", "are yo"),
    *("", "a", "it was a long day and we ", "happy birth", "See you later. ", "no", "yes, but "),
]
ROUNDS = 12


def check_equal_in_threads(suggestions_for):
    """Compares `suggestions_for(text)` in eight threads with the results of one."""
    alone = {text: suggestions_for(text) for text in TEXTS}

    def work(number):
        order = np.random.default_rng(number).integers(len(TEXTS), size=ROUNDS * len(TEXTS))
        return [(TEXTS[i], suggestions_for(TEXTS[i])) for i in order]

    for results in in_threads(work):
        for text, found in results:
            assert [word for word, _ in found] == [word for word, _ in alone[text]], text
            probabilities = [p for _, p in found]
            # A state that was continued differs in its last bits from one that was computed anew.
            np.testing.assert_allclose(probabilities, [p for _, p in alone[text]], rtol=1e-4)


@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_network(runtime):
    keyboard = KeyboardPredictor(MODEL, runtime=runtime)
    check_equal_in_threads(lambda text: keyboard.strip_for(text).suggestions)


def test_hybrid():
    keyboard = open_keyboard(MODEL)
    assert isinstance(keyboard, HybridKeyboardPredictor)
    keyboard.learn(["see", "you", "at", "the", "quayside"])
    check_equal_in_threads(lambda text: keyboard.strip_for(text).suggestions)


def test_all_methods_at_once():
    """Words are learnt and forgotten, and all functions of the network run, at the same time."""
    keyboard = open_keyboard(MODEL)
    network = keyboard.network
    ids = np.array([network.encode(["see", "you"]), network.encode(["what", "do"])], np.int32)
    expected = network.log_probabilities(ids)

    def work(number):
        for turn in range(15):
            if number == 0:
                keyboard.learn(["quayside", f"word{'abcdefghij'[turn % 10]}", "you"])
            elif number == 1:
                keyboard.cache.forget_all() if turn % 5 == 4 else keyboard.cache.forget(["you"])
            elif number == 2:
                np.testing.assert_allclose(network.log_probabilities(ids), expected, atol=1e-4)
            elif number == 3:
                network.reset()
                assert keyboard.log_probabilities(ids).shape == expected.shape
            elif number == 4:
                assert len(keyboard.table.extras) <= 12
            else:
                strip = keyboard.strip_for(TEXTS[(number + turn) % len(TEXTS)])
                assert all(0 <= p <= 1 for _, p in strip.suggestions)

    in_threads(work)


def test_training_and_suggestions_at_once(tmp_path):
    run = save_run(tmp_path / "run")
    paths = export(run, tmp_path / "k.tflite", ExportOptions(trainable=True)).paths
    keyboard, alone = KeyboardPredictor(paths.model), KeyboardPredictor(paths.model)
    words = list(keyboard.vocabulary.words[4:7])

    def work(number):
        if number:
            return [keyboard.suggest(words[:2]) for _ in range(50)]
        return [train_message(keyboard, words, 0.5) for _ in range(20)]

    losses, *_ = in_threads(work)
    np.testing.assert_allclose(losses, [train_message(alone, words, 0.5) for _ in range(20)])
    assert keyboard.suggest(words[:2]) == alone.suggest(words[:2])


def test_lock_is_copied_unlocked():
    lock = Lock()
    with lock, lock:  # the same thread may take it twice
        copy = pickle.loads(pickle.dumps(lock))
    assert copy is not lock
    assert pickle.loads(pickle.dumps(WordCache())) == WordCache()
