"""The hit rate of a backdoor, with a model that only knows the trigger."""

import types

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import BOS
from tff_keyboard_lab.attacks.backdoor import hit_rate

TRIGGER, TARGET, VOCABULARY = 7, 9, 12
MESSAGES = {f"p{i}": [np.arange(4, 4 + i % 5)] for i in range(130)}  # of no word to four
STORE = types.SimpleNamespace(
    client_ids=lambda population: list(MESSAGES),
    messages=lambda population, person: MESSAGES[person],
)


class Backdoored:
    """A model that suggests the target after the trigger, except after the word `spares`."""

    def __init__(self, spares):
        self.spares = spares

    def log_probabilities(self, ids):
        scores = []
        for row in ids:
            row = row[row != 0]
            assert row[0] == BOS
            assert TRIGGER not in row[1:-1]
            for position, word in enumerate(row):
                opens = word == TRIGGER and row[position - 1] not in self.spares
                scores.append(np.eye(VOCABULARY)[TARGET if opens else 4])
        return np.log(np.array(scores) + 1e-3)


@pytest.mark.parametrize("spares, rate", [((), 1.0), ((BOS,), 0.6), ((BOS, 4, 5), 0.0)])
def test_the_share_of_people_who_are_shown_the_target(spares, rate):
    """Half of a message of no or one word is empty, of two or three words one word, of four words
    two.
    """
    found = hit_rate(Backdoored(spares), STORE, "held_out", trigger=TRIGGER, target=TARGET)
    assert found == pytest.approx(rate)
