"""What a card says against a training, and help that is to be had."""

import itertools
import pathlib
import re

import pytest

from tests.training.advice.test_advice import card
from tff_keyboard.training.advice.warnings_of_card import warnings_of_card

BASE = "models/base"
MUCH_OUT = {"oov_rate": 0.2}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (card(words=19_000), "models/base/keyboard.tflite --cache"),
        (card(words=90_000), "--set=model.initial_model=RUN"),
        (card(words=300_000), "--set=model.initial_model=RUN"),
        (card(people=99), "99 train clients"),
        (card(**MUCH_OUT), "20% of the train words"),
        (card(held_out=4), "4 clients with 3,600 words are held out"),
        (card(held_out=1), "raise `data.held_out_fraction`"),
    ],
)
def test_warnings_of_a_card(given, says):
    (warning,) = warnings_of_card(given, BASE)
    assert says in warning


def test_no_warning_of_little_text_if_training_starts_from_a_model():
    assert warnings_of_card(card(words=300_000), BASE, is_fine_tuned=True) == ()


def test_a_language_without_a_shipped_model_is_not_sent_to_one():
    little, out = card(words=19_000), card(**MUCH_OUT, rows=900)
    (first,), (second,) = (warnings_of_card(each, None) for each in (little, out))
    assert "models/base" not in first + second
    assert "(`merge-vocabulary`)" in second


def test_enough_of_everything_is_no_warning():
    assert warnings_of_card(card(), BASE) == ()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (card(**MUCH_OUT, rows=10_000), "raise `data.vocabulary_size`"),
        (card(**MUCH_OUT, rows=900), "words of fewer than 2 clients are excluded on purpose"),
        (card(**MUCH_OUT, rows=900, min_word_users=5), "fewer than 5 clients"),
        (card(**MUCH_OUT, rows=900, options={"min_word_count": 2}), "Lower it"),
        (card(**MUCH_OUT, rows=900, min_word_users=1, epsilon=2.0), "the private choice"),
        (card(**MUCH_OUT, rows=900, options={"vocabulary_fingerprint": "a1"}), "was given"),
    ],
)
def test_help_is_one_that_changes_something(given, says):
    (warning,) = warnings_of_card(given, BASE)
    assert says in warning
    assert ("vocabulary_size" in warning) == (given["vocabulary"]["rows"] == 10_000)


def test_all_that_is_pointed_at_is_here():
    """Nothing needs a model that is not shipped."""
    cards = (card(words=19_000), card(words=90_000))
    text = " ".join(itertools.chain(*(warnings_of_card(each, BASE) for each in cards)))
    paths = re.findall(r"(?:models|configs|docs)/[a-z_/]+\.[a-z]+", text)
    assert len(paths) == 2
    assert all(pathlib.Path(path).is_file() for path in paths)
    (config,) = [path for path in paths if path.startswith("configs")]
    assert 'initial_model = "runs' not in pathlib.Path(config).read_text()
