"""The forms in which words are shown, learnt from train users' typing: "Singapore", "NUS", "I".

    a word has a form   if, inside sentences, it is typed in that form more often than in all other
                        forms together, including lower case anywhere, by at least `min_users` users

The model stays lower-case. The keyboard shows the forms and begins sentences with a capital. The
most frequent form is a baseline of truecasing: Lita et al. 2003, "tRuEcasIng".
"""

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from tff_keyboard.data.store.store_card import CaseFacts, rate
from tff_keyboard.data.text import casing
from tff_keyboard.data.text.capitals import Capitals
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.text.word_counts import WordCounts
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary

MAX_FORMS = 50_000  # the limit of an export's manifest
_LONGEST_FORM = 100


def has_capitals(rules: NormalisationRules) -> bool:
    """Checks if words are lower-cased from typed text, so that a table of forms is useful."""
    return rules.mode == "words" and rules.lowercase


class FormReader:
    """Extracts forms of words from the capitals of messages."""

    def __init__(self, rules: NormalisationRules):
        self._tokenizer = PythonTokenizer(dataclasses.replace(rules, lowercase=False))
        self._language = rules.language

    def forms(self, chunks: Iterable[str]) -> list[str]:
        """Returns the words with a capital in the chunks, without the surrounding punctuation."""
        joined = " ".join(filter(None, map(self._tokenizer.joined, chunks)))
        return [form for form in joined.split(" ") if form and form != self.lower(form)]

    def lower(self, form: str) -> str:
        """Returns the word of a form."""
        return casing.lower(form, self._language)


class FormCounts:
    """Counts of the forms of train users' words, in bounded memory.

    Attributes:
      inside: Capitalised forms inside sentences, and the number of users that typed them.
      anywhere: The same including starts of sentences, in lower case: how often each word was typed
        with a capital.
    """

    def __init__(self, reader: FormReader):
        self.inside = WordCounts()
        self.anywhere = WordCounts()
        self._reader = reader

    def add_client(self, capitals: Sequence[Capitals]) -> None:
        """Adds all messages of a user. Call it once per user."""
        inside = self._reader.forms(chunk for message in capitals for chunk in message.inside)
        starting = self._reader.forms(chunk for message in capitals for chunk in message.starting)
        self.inside.add_client(inside)
        self.anywhere.add_client(self._reader.lower(form) for form in (*inside, *starting))


def choose_forms(
    forms: FormCounts, words: WordCounts, vocabulary: Vocabulary, *, min_users: int
) -> dict[str, str]:
    """Returns word -> form to show, for the words of the vocabulary with a capitalised form.

    Args:
      forms: Counts of forms over all train users.
      words: Counts of words over all train users.
      vocabulary: The vocabulary.
      min_users: Minimum number of users that typed a form, >= 1.
    """
    by_word: dict[str, list[tuple[int, str]]] = collections.defaultdict(list)
    words_of_table = set(vocabulary.words)
    for form, count in forms.inside.counts.items():
        word = casing.lower(form, vocabulary.rules.language)
        if word in words_of_table and len(form) <= _LONGEST_FORM:
            by_word[word].append((count, form))
    table = {}
    for word, counts_of_forms in by_word.items():
        best_count, best_form = max(counts_of_forms)
        other_forms = sum(count for count, _ in counts_of_forms) - best_count
        in_lower_case = max(0, words.counts[word] - forms.anywhere.counts[word])
        if (
            best_count > in_lower_case + other_forms
            and forms.inside.clients[best_form] >= min_users
        ):
            table[word] = best_form
    frequent_words = sorted(table, key=lambda word: (-words.counts[word], word))[:MAX_FORMS]
    return {word: table[word] for word in sorted(frequent_words)}


class CaseAccuracy:
    """The accuracy of a table of forms for users that it was not made from.

    Inside sentences, each word of the vocabulary counts as correct if it is shown as it was typed.
    Starts of sentences are counted separately.
    """

    def __init__(self, table: dict[str, str], vocabulary: Vocabulary, reader: FormReader):
        self._table = table
        self._vocabulary_words = set(vocabulary.words)
        self._reader = reader
        self._sums: collections.Counter[str] = collections.Counter()

    def add_client(self, messages: Sequence[str], capitals: Sequence[Capitals]) -> None:
        """Adds a user's messages, tokens joined by spaces, and the capitals in each."""
        inside = collections.Counter(
            self._reader.forms(chunk for message in capitals for chunk in message.inside)
        )
        typed: collections.Counter[str] = collections.Counter()  # capitalised, inside sentences
        right: collections.Counter[str] = collections.Counter()
        for form, count in inside.items():
            word = self._reader.lower(form)
            typed[word] += count
            right[word] += count * (self._table.get(word) == form)
        starting = collections.Counter(
            self._reader.lower(form)
            for form in self._reader.forms(c for message in capitals for c in message.starting)
        )
        uses = collections.Counter(" ".join(messages).split(" "))
        for word, count in uses.items():
            if word not in self._vocabulary_words:
                continue
            lower = max(0, count - typed[word] - starting[word])
            self._sums["words"] += lower + typed[word]
            self._sums["lower"] += lower
            self._sums["capitals"] += typed[word]
            self._sums["capitals_right"] += right[word]
            self._sums["shown_with_capital"] += (lower + typed[word]) * (word in self._table)
            self._sums["lower_right"] += lower * (word not in self._table)
        self._sums["messages"] += len(messages)
        self._sums["messages_begun"] += sum(message.begins for message in capitals)

    def as_json(self) -> CaseFacts:
        """Returns rates in [0, 1], without words."""
        sums = self._sums
        right = sums["capitals_right"] + sums["lower_right"]
        return {
            "words_inside_sentences": sums["words"],
            "accuracy_with_table": rate(right, sums["words"]),
            "accuracy_in_lower_case": rate(sums["lower"], sums["words"]),
            "capitals_typed_rate": rate(sums["capitals"], sums["words"]),
            "capitals_shown_right_rate": rate(sums["capitals_right"], sums["capitals"]),
            "shown_capitals_wrong_rate": rate(
                sums["shown_with_capital"] - sums["capitals_right"], sums["shown_with_capital"]
            ),
            "messages": sums["messages"],
            "messages_begun_with_capital_rate": rate(sums["messages_begun"], sums["messages"]),
        }
