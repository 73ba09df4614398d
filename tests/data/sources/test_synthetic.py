"""Synthetic users: repeatable, different from each other, and learnable."""

import collections
import random

import numpy as np
import pytest

from tff_keyboard.data.sources import synthetic
from tff_keyboard.data.sources.synthetic import phrase_book
from tff_keyboard.data.text import python_tokenizer as text_python
from tff_keyboard.data.vocabulary import NormalisationRules

TOKENIZER = text_python.PythonTokenizer(NormalisationRules())


def tokens_by_typist(num_typists=100, mean_messages=60, seed=1):
    typists = collections.defaultdict(list)
    for message in synthetic.generate_messages(num_typists, mean_messages, seed=seed):
        typists[message.user].append(TOKENIZER.tokenize_one(message.text))
    return typists


@pytest.fixture(scope="module")
def typists():
    return tokens_by_typist()


def test_messages_depend_only_on_seed_and_user_number():
    def first(count, seed):
        messages = list(synthetic.generate_messages(count, 10, seed=seed))
        return [message for message in messages if message.user < "typist_00003"]

    assert first(3, 1) == first(5, 1)
    assert first(3, 1) != first(3, 2)


def test_numbers(typists):
    counts = [len(messages) for messages in typists.values()]
    assert len(counts) == 100
    assert 50 < np.mean(counts) < 70
    assert np.median(counts) < np.mean(counts)  # skewed, like those of real users
    done = []
    list(synthetic.generate_messages(4, 3, seed=0, on_typist=done.append))
    assert done == [1, 2, 3, 4]


def test_hundreds_of_words_and_nothing_empty(typists):
    messages = [message for typed in typists.values() for message in typed]
    assert all(messages)
    assert len({word for message in messages for word in message}) > 500
    assert 5 < np.mean([len(message) for message in messages]) < 12
    assert max(len(message) for message in messages) < 80


def test_every_slot_and_template_is_used(typists):
    templates = [t for topic in phrase_book().topics.values() for t in topic]
    slots = {slot for t in templates for slot in synthetic._SLOT.findall(t)}
    assert slots == {*phrase_book().slots, "friend"}
    typed = " ".join(" ".join(m) for messages in typists.values() for m in messages)
    assert "{" not in typed
    for words in (phrase_book().greetings, phrase_book().laughs, phrase_book().emoji):
        assert all(" ".join(TOKENIZER.tokenize_one(word)) in typed for word in words)


def test_users_differ_from_each_other(typists):
    """Halves of one user's text are closer to each other than to another user's text (cosine)."""

    def direction(messages):
        counts = collections.Counter(word for message in messages for word in message)
        vector = np.array([counts[word] for word in words], dtype=np.float64)
        return vector / np.linalg.norm(vector)

    busy = [messages for messages in typists.values() if len(messages) >= 60]
    words = sorted({word for messages in busy for message in messages for word in message})
    first = np.array([direction(messages[::2]) for messages in busy])
    second = np.array([direction(messages[1::2]) for messages in busy])
    similar = first @ second.T
    own = np.diag(similar).mean()
    others = similar[~np.eye(len(busy), dtype=bool)].mean()
    assert own > others + 0.2


def test_context_predicts_the_next_word_of_new_users(typists):
    """Predictions from the last two words are much better than the most frequent word.

    There is therefore much to learn that also holds for other users.
    """
    people = list(typists.values())
    train, held_out = people[:80], people[80:]
    unigram = collections.Counter(w for messages in train for m in messages for w in m)
    following = collections.defaultdict(collections.Counter)
    for messages in train:
        for message in messages:
            for a, b, c in zip(["", "", *message], ["", *message], message, strict=False):
                following[a, b][c] += 1
    ((best, _),) = unigram.most_common(1)
    hits, hits_of_unigram, total = 0, 0, 0
    for messages in held_out:
        for message in messages:
            for a, b, c in zip(["", "", *message], ["", *message], message, strict=False):
                ranked = following[a, b].most_common(1)
                hits += bool(ranked) and ranked[0][0] == c
                hits_of_unigram += c == best
                total += 1
    assert hits / total > 0.3
    assert hits / total > 4 * hits_of_unigram / total


def typist_with(habits, monkeypatch, seed=3):
    """Returns a user that always has the given habits."""
    typist = synthetic.Typist(random.Random(seed))
    monkeypatch.setattr(typist, "_does", lambda habit: habit in habits)
    return typist


def test_a_greeting_is_followed_by_a_friend(monkeypatch):
    plain = typist_with({"greeting", "reply"}, monkeypatch)
    named = typist_with({"greeting", "reply", "friend"}, monkeypatch)
    friends = [name.lower() for name in phrase_book().names]
    for typist, expected in ((plain, 0), (named, 1)):
        for _ in range(20):
            text = f" {typist.message().lower()} "
            actual = sum(f" {name} " in text for name in friends)
            assert actual >= expected
            assert expected or not actual


def test_clauses_are_joined_without_repetition(monkeypatch):
    typist = typist_with({"another_clause"}, monkeypatch)
    templates = []
    monkeypatch.setattr(typist, "_clause", lambda template: templates.append(template) or "clause")
    lengths = set()
    for _ in range(60):
        templates.clear()
        words = typist._clauses().split()
        assert set(words) <= {"clause", "and", "but", "so"}
        assert words.count("clause") == len(templates) == len(set(templates))
        lengths.add(len(templates))
    assert max(lengths) <= synthetic._LONGEST_MESSAGE_CLAUSES
    assert len(lengths) > 1
