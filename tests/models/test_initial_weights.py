"""A model that starts with the rows of another one, word by word."""

import re

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.models import build_model
from tff_keyboard.models.initial_weights import assign_initial_weights
from tff_keyboard.models.saved_model import save_model, weights_by_name
from tff_keyboard.storage.errors import SavedModelError

RULES = NormalisationRules()
KNOWN = [f"w{i:02}" for i in range(20)]
OWN = ["zq", "w03", "w19", "hm"]
OPTIONS = {
    "cifg": {"units": 4, "embedding_size": 3},
    "gru": {"units": 4, "embedding_size": 3},
    "lstm2": {"units": 4, "embedding_size": 4, "tied": True},
    "transformer": {"embedding_size": 4, "layers": 1, "heads": 2, "window": 5},
}
ROWS = {
    "cifg": ["embedding"],
    "gru": ["embedding", "output_table", "output_bias"],
    "lstm2": ["embedding", "output_bias"],
    "transformer": ["embedding"],
}


def words(*names, rules=RULES):
    return Vocabulary((*SPECIAL_WORDS, *names), rules)


def build(name, vocabulary, **options):
    sizes = {**OPTIONS[name], **options}
    model = build_model(name, vocabulary_size=len(vocabulary), seed=len(vocabulary), **sizes)
    random = np.random.default_rng(len(vocabulary))
    model.set_weights([random.normal(size=weight.shape) for weight in model.get_weights()])
    return model


@pytest.fixture(name="saved")
def _saved(request, tmp_path):
    model = build(getattr(request, "param", "cifg"), words(*KNOWN))
    save_model(tmp_path / "model", model, words(*KNOWN))
    return model, tmp_path / "model"


@pytest.mark.parametrize(("name", "saved"), [(each,) * 2 for each in OPTIONS], indirect=["saved"])
def test_rows_follow_their_words(name, saved):
    general, directory = saved
    model = build(name, words(*OWN))
    drawn = weights_by_name(model)
    assert assign_initial_weights(model, directory, words(*OWN)) == 2
    before = weights_by_name(general)
    assert [key for key in before if before[key].shape[0] == len(words(*KNOWN))] == ROWS[name]
    for key, value in weights_by_name(model).items():
        old, new = before[key], drawn[key]
        if key in ROWS[name]:
            old = np.stack([*old[:4], new[4], old[4 + 3], old[4 + 19], new[7]])
        np.testing.assert_array_equal(value, old)


def test_same_vocabulary_copies_all_weights(saved):
    general, directory = saved
    model = build("cifg", words(*KNOWN, "x"))
    assert assign_initial_weights(model, directory, words(*KNOWN, "x")) == 20
    model = build("cifg", words(*KNOWN))
    assert assign_initial_weights(model, directory, words(*KNOWN)) == 20
    for mine, its in zip(model.get_weights(), general.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)


def test_scores_of_shared_words_are_equal(saved):
    """Scores of known words after known words do not depend on the other words."""
    general, directory = saved
    own = words(*OWN)
    model = build("cifg", own)
    assign_initial_weights(model, directory, own)
    (mine,) = model(np.array([[1, own.id_of("w19"), own.id_of("w03")]], np.int32)).numpy()
    known = words(*KNOWN)
    (its,) = general(np.array([[1, known.id_of("w19"), known.id_of("w03")]], np.int32)).numpy()
    both = ["w03", "w19"]
    np.testing.assert_allclose(mine[:, own.encode(both)], its[:, known.encode(both)], rtol=1e-5)


@pytest.mark.parametrize(
    ("rules", "options", "says"),
    [
        (RULES, {"units": 5}, "Change section [model]"),
        (NormalisationRules(language="de"), {}, "`data.lowercase` and `data.language`"),
        (NormalisationRules(lowercase=False), {}, "'lowercase': False"),
    ],
    ids=["units", "language", "case"],
)
def test_mismatch_is_one_line(rules, options, says, saved):
    own = words(*OWN, rules=rules)
    model = build("cifg", own, **options)
    before = model.get_weights()
    with pytest.raises(SavedModelError, match=re.escape(says)) as caught:
        assign_initial_weights(model, saved[1], own)
    assert "\n" not in str(caught.value)
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)
