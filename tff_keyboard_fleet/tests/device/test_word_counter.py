"""A device counts its new words: by the rules of `prepare`, each once, and in few cells."""

import dataclasses
import pathlib
import random

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard_fleet.device import training_process, word_counter
from tff_keyboard_fleet.device.training_process import Job
from tff_keyboard_fleet.tests.device.test_device import make_plan
from tff_keyboard_fleet.wire import messages, word_cells
from tff_keyboard_fleet.wire.plan import Codec, NewWords, Plan, SecureSums
from tflite_export.format import manifest

VOCABULARY = Vocabulary((*SPECIAL_WORDS, "see", "you"), NormalisationRules(language="en"))
LETTERS = "'-abcdefghijklmnopqrstuvwxyz"
WORK = NewWords(alphabet=LETTERS, prefixes=[""], letters=1, slots=2, max_cells=2)
SUMS = SecureSums(
    clip_norm=word_cells.clip_norm(2), step=word_cells.STEP, bits=32, degree=2, threshold=2
)


def new_words(*texts):
    return word_counter.new_words(texts, VOCABULARY, LETTERS, random.Random(1))


def words_plan(**changes):
    facts = {
        "vocabulary": VOCABULARY.fingerprint,
        "weighting": "uniform",
        "codec": Codec(name=messages.MASKED),
        "secure_sums": SUMS,
        "new_words": WORK,
    }
    return make_plan(**(facts | changes))


def test_frequent_words_come_first_and_known_words_are_not_counted():
    assert new_words("Blorp, see (blorp)!", "you plim blorp’s", "“plim” blorp...") == [
        "blorp",
        "plim",
        "blorp's",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "report.pdf",
        "@johann",
        "hunter_2",
        "hunter2",
        "and/or",
        "a@b.org",
        "#tag",
        "90481234",
        "<url>",
        "http://blorp.org/x",
        "~/file",
        "C:\\file",
        "deadbeefdeadbeef",
        "naïve",
        "😀",
        "a" * 41,
        "blorp--plim",
        "-blorp",
        "",
    ],
)
def test_other_text_is_never_counted(text):
    assert new_words(f"see {text} you") == []


def test_equally_frequent_words_have_the_same_chance():
    first = {word_counter.new_words(["za mo"], VOCABULARY, LETTERS)[0] for _ in range(50)}
    assert first == {"za", "mo"}


def test_the_process_writes_the_counts_as_integers(tmp_path, monkeypatch):
    plan = words_plan()
    monkeypatch.setattr(manifest, "load_checked", lambda path: (None, VOCABULARY))
    (tmp_path / "plan").write_bytes(plan.to_bytes())
    job = Job(
        plan=str(tmp_path / "plan"),
        graph=str(tmp_path / "graph"),
        model=str(tmp_path / "graph"),
        upload=str(tmp_path / "upload"),
        assignment="seat",
        texts=["blorp blorp bim bim", "zoo zoo xylo"],
    )
    done = training_process.do(job)
    assert (done.steps, done.weight, done.loss) == (2, 1.0, 0.0)
    header, payload = messages.unpack_upload(pathlib.Path(job.upload).read_bytes())
    assert (header.shape, header.weight) == ([2 * 29], 1.0)
    vector = np.frombuffer(payload, "<u4")
    texts = list(word_cells.texts_of_prefix("", LETTERS, 1))
    assert {texts[cell] for cell in np.flatnonzero(vector)} == {"b", "z"}
    assert vector.max() == 1
    other = dataclasses.replace(plan, vocabulary="0" * 64)
    (tmp_path / "plan").write_bytes(other.to_bytes())
    with pytest.raises(Exception, match="vocabulary differs"):
        training_process.do(job)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alphabet": "ab1"}, "alphabet"),
        ({"letters": 4}, "letters"),
        ({"prefixes": []}, "prefixes"),
        ({"prefixes": ["a", "a"]}, "prefixes"),
        ({"prefixes": ["a", "ab"]}, "one length"),
        ({"prefixes": ["é"]}, "letters of the alphabet"),
        ({"slots": 10**6}, "cells"),
        ({"max_cells": 0}, "max_cells"),
    ],
)
def test_plans_out_of_range_are_refused(changes, message):
    plan = words_plan(new_words=dataclasses.replace(WORK, **changes))
    with pytest.raises(ValueError, match=message):
        Plan.from_bytes(plan.to_bytes())


def test_a_plan_without_secure_sums_is_refused():
    plan = words_plan(secure_sums=None, codec=Codec())
    with pytest.raises(ValueError, match="needs `secure_sums`"):
        Plan.from_bytes(plan.to_bytes())
    sound = words_plan()
    assert Plan.from_bytes(sound.to_bytes()) == sound
    assert (sound.upload_size, sound.record) == (58, f"{sound.population} (new words)")
