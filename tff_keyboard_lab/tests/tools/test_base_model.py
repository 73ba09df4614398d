"""Shipped weights: rounded, compressed, and still a model that a training can start from."""

import argparse
import gzip
import sys

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import (
    LANGUAGES,
    SPECIAL_WORDS,
    NormalisationRules,
    Vocabulary,
)
from tff_keyboard.models import build_model
from tff_keyboard.models.saved_model import load_model, save_model, weights_by_name
from tff_keyboard_lab.tools import base_model, unmark

RNG = np.random.default_rng(1)


def test_rounded_rows_have_few_values_and_a_bounded_error():
    value = RNG.normal(0, [[0.01], [1.0], [0.0]], (3, 2_000)).astype(np.float32)
    actual = base_model.rounded(value)
    assert actual.dtype == np.float32
    assert all(len(np.unique(row)) <= 255 for row in actual)
    bound = np.abs(value).max(axis=1) / 127
    assert (np.abs(actual - value).max(axis=1) <= bound).all()
    assert (actual[2] == 0).all()
    np.testing.assert_array_equal(base_model.rounded(actual), actual)


def test_a_bias_is_not_rounded():
    bias = RNG.normal(size=50).astype(np.float32)
    assert base_model.rounded(bias) is bias


def test_the_rounded_model_loads_and_takes_less_space(tmp_path):
    words = Vocabulary(
        [*SPECIAL_WORDS, *(f"w{index}" for index in range(496))], NormalisationRules()
    )
    model = build_model("cifg", vocabulary_size=500, seed=1, units=32, embedding_size=16)
    save_model(tmp_path / "run" / "model", model, words, rounds=3)
    base_model.write_initial_model(tmp_path / "run", tmp_path / "model")
    actual, vocabulary = load_model(tmp_path / "model")
    assert vocabulary.words == words.words
    for name, value in weights_by_name(model).items():
        np.testing.assert_array_equal(weights_by_name(actual)[name], base_model.rounded(value))
    sizes = [(tmp_path / at / "weights.npz").stat().st_size for at in ("run/model", "model")]
    assert sizes[1] < 0.4 * sizes[0]
    base_model.write_initial_model(tmp_path / "run", tmp_path / "again")
    assert (tmp_path / "again" / "weights.npz").read_bytes() == (
        tmp_path / "model" / "weights.npz"
    ).read_bytes()


def test_sentences_with_an_example_name_are_left_out(tmp_path):
    lines = [
        "a\tTom ist da",
        "a\tTomaten",
        "Tom\tich bin da",
        "b\tist das Toms Hut?",
        "b\tja, Tom!",
    ]
    source, out = tmp_path / "whole.gz", tmp_path / "out.gz"
    source.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    base_model.write_text_without(("Tom", "Mary"), source, out)
    kept = gzip.decompress(out.read_bytes()).decode().splitlines()
    assert kept == ["a\tTomaten", "Tom\tich bin da", "b\tist das Toms Hut?"]


def test_sources_are_languages_of_the_keyboard():
    assert set(base_model.SOURCES) == set(LANGUAGES)


def test_a_step_that_fails_ends_the_build():
    with pytest.raises(SystemExit) as ended:
        base_model.run_command([sys.executable, "-c", "raise SystemExit(3)"])
    assert ended.value.code == 3


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_language_with_marks_gets_a_list_of_strings_without_them(language, tmp_path, monkeypatch):
    monkeypatch.setenv("TFF_KEYBOARD_DATA", str(tmp_path / "data"))
    for name in ("trained", "task", "write_initial_model"):
        monkeypatch.setattr(base_model, name, lambda *arguments: tmp_path / "run")
    ran = []
    monkeypatch.setattr(base_model, "run_command", ran.append)
    flags = argparse.Namespace(
        frequencies=tmp_path / "words.tsv", seed=1, ngram=1, words=1, also=[]
    )
    base_model.build(language, tmp_path / "out", tmp_path / "work", flags)
    commands = [command for command in ran if unmark.__name__ in command]
    assert len(commands) == (language == "es")
    for command in commands:
        arguments = command[command.index(unmark.__name__) + 1 :]
        parsed = unmark.argument_parser().parse_args(arguments)
        assert parsed.text == tmp_path / "data" / "languages" / "es.tsv.gz"
        assert parsed.frequencies == flags.frequencies
