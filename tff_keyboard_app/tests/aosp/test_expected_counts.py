"""Expected counts against sums over positions, one by one, in float64."""

import itertools

import hypothesis
import numpy as np
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.vocabulary import (
    BOS,
    NUM_SPECIAL,
    PAD,
    SPECIAL_WORDS,
    NormalisationRules,
    Vocabulary,
)
from tff_keyboard_app.aosp.expected_counts import expected_counts, likely_pairs

WORDS = ("a", "b", "c", "d", "e")
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), NormalisationRules())
TABLE = np.random.default_rng(1).dirichlet(np.ones(9), size=(9, 9)).astype(np.float64)


class TwoWords:
    """A model with p(w | the last two ids) from a random table. PAD precedes each row."""

    vocabulary = VOCABULARY

    def log_probabilities(self, ids):
        before = np.concatenate([np.full([len(ids), 1], PAD, np.int32), ids[:, :-1]], axis=1)
        return np.log(TABLE[before, ids])[ids != PAD].astype(np.float32)


def of_person(messages, following):
    """Returns (u, b) of one client, by the definition."""
    u, b = np.zeros(9), np.zeros(following.shape)
    for words in messages:
        ids = [PAD, BOS, *VOCABULARY.encode(words)]
        for before, last in itertools.pairwise(ids):
            p = TABLE[before, last]
            u += p
            if last >= NUM_SPECIAL:
                b[last] += p[following[last]]
    return u, b


MESSAGES = st.lists(st.lists(st.sampled_from([*WORDS, "zz"]), min_size=1, max_size=5), max_size=4)


@hypothesis.given(st.lists(MESSAGES, max_size=4))
@examples(60)
def test_sums_match_the_definition(people):
    following = likely_pairs(TwoWords(), 3)
    told = []
    actual = expected_counts(TwoWords(), people, following, summed=told.append)
    u, b = np.zeros(9), np.zeros(following.shape)
    for messages in people:
        own = of_person(messages, following)
        u, b = u + own[0], b + own[1]
    np.testing.assert_allclose(actual.unigrams, u, rtol=1e-5)
    np.testing.assert_allclose(actual.bigrams, b, rtol=1e-5, atol=1e-12)
    assert actual.people == len(people)
    assert told == list(range(1, len(people) + 1))
    typists = [sum(any(word in m for m in p) for p in people) for word in WORDS]
    assert actual.typists[NUM_SPECIAL:].tolist() == typists
    assert not actual.bigrams[:NUM_SPECIAL].any()


def test_pairs_are_the_most_probable_words():
    following = likely_pairs(TwoWords(), 2)
    for word in range(NUM_SPECIAL, 9):
        best = np.argsort(-TABLE[PAD, word, NUM_SPECIAL:])[:2] + NUM_SPECIAL
        assert sorted(best) == following[word].tolist()
    assert likely_pairs(TwoWords(), 50).shape == (9, len(WORDS))
