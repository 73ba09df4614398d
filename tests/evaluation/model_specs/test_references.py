"""Names of models."""

import pathlib

import pytest

from tff_keyboard.evaluation.model_specs import references
from tff_keyboard.storage.errors import UsageError


def test_names_are_paths_if_short_names_clash():
    assert references.names_of(["a/run", "b/run", "unigram"]) == ["a/run", "b/run", "unigram"]


@pytest.mark.parametrize(
    "word, baseline, trained, path",
    [
        ("unigram", True, True, None),
        ("ngram:1.44MB", True, True, None),
        ("runs/ngram", False, False, "runs/ngram"),
        ("hybrid:6kB:runs/a:b", False, True, "runs/a:b"),
        ("hybrid:6:runs/a", False, True, "6:runs/a"),
        ("unigrams", False, False, "unigrams"),
        ("ngram+own+all", False, False, "ngram+own+all"),
        ("ngram+all+own:1.25M", True, True, None),
    ],
)
def test_kinds_of_names(word, baseline, trained, path):
    assert references.is_baseline(word) == baseline
    assert references.is_trained_here(word) == trained
    assert references.path_of(word) == (path and pathlib.Path(path))


def test_files_are_left_to_their_readers(tmp_path):
    references.check_words([str(tmp_path), "nowhere.tflite", "nowhere.ngram", "ngram:nonsense"])
    with pytest.raises(UsageError, match="'nowhere' is not a model"):
        references.check_words(["unigram", "nowhere"])
    with pytest.raises(UsageError, match="given twice"):
        references.check_words(["unigram", "unigram"])
