"""Where text comes from and how `prepare` makes a client store of it."""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.config.reading import checks
from tff_keyboard.config.reading.tables import Table

Source: TypeAlias = Literal["synthetic", "tsv", "text", "articles", "stackoverflow", "shakespeare"]

# These bring their own split by time, in the file.
_SPLIT_BY_TIME_IN_FILE = ("stackoverflow", "shakespeare")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig(Table, path="data"):
    """Input text, tokens, and the split into populations.

    Attributes:
      source: "synthetic" (generated typists, no input), "tsv" (lines `user<TAB>text`, plain or
        gzip), "text" (train, valid and test files, dealt out to equal clients), "articles" (such
        files of WikiText, whose every article is a client), "stackoverflow" or "shakespeare"
        (TFF's SQLite files of that name).
      input: A path, or several; `$NAME` and `~` are expanded. For "text" and "articles": a folder
        with train.txt, valid.txt and test.txt, or those three files in this order. Empty for
        "synthetic".
      store: Folder of the client store that `prepare` writes and `train` reads.
      vocabulary_size: V, rows of the word table with the four special ones; > 4. The table is
        shorter when train users typed fewer distinct words. Not used with `vocabulary_path`.
      min_word_count: Rarer words stay out of the vocabulary; >= 1. With 1, a small corpus may fit
        in whole, and then training never meets the OOV row. Not used with `vocabulary_path`.
      min_word_users: Words that fewer train users typed stay out of the vocabulary, which every
        phone gets in the clear; >= 1. 0 goes by their number: 5 from 1,000 users on, else 2 (and 1
        with "text" and "articles", whose clients are not people). With `vocabulary_path` it
        decides on forms with capitals alone.
      vocabulary_epsilon: Price of a private choice of words, > 0; 0 goes by exact counts. With one,
        `min_word_count` and `min_word_users` have no say: noise and a threshold do
        (privacy/accounting/private_vocabulary.py), and every new store is a new release.
      vocabulary_delta: Its delta, in (0, 1).
      vocabulary_words_per_person: Distinct words of a person that count, the most typed; >= 1.
      vocabulary_path: Vocabulary to encode with, in place of one built from train users: a file, or
        a model or run that has one.
      max_length: Targets of a sequence in training, the end of message among them; >= 2.
      long_messages: What becomes of messages with more targets. "continue": they go on in further
        sequences, without an end where they are cut and without a begin where they go on. "keep":
        what is beyond is not trained on. "split": `prepare` makes several messages of them, after
        sentence ends, which only `mode` = "whitespace" keeps; long sentences go on as in
        "continue". The store holds whole messages, except with "split".
      mode: "words" (for typed text), or "whitespace" (text is tokenised already: split only).
      lowercase: Whether tokens are made lower case.
      language: Language of the text; decides lower case, and keys, corrections and blocklist of a
        keyboard.
      seed: Decides who is in which population, how "text" lines are dealt out, and what
        synthetic typists type; >= 0.
      validation_fraction: Share of users for validation, > 0.
      held_out_fraction: Share of users for the final evaluation, > 0. The sum of both is < 1.
        "text" and "articles" have a file for each instead, and "stackoverflow" brings its own
        held-out users.
      later_fraction: Share of each train user's messages, the last ones, kept apart as the
        population `train_later`; 0 means none.
      dedup_min_words: Words from which on a message that repeats an earlier one of its user is
        dropped; 0 keeps all. Not used with "text" and "articles".
      min_messages_per_user: Users with fewer messages are left out (and counted); >= 1.
      max_users: Only this many users are read, chosen by hash; 0 means all. For large files; not
        used with "text".
      on_bad_line: "error" stops at a line that is not what `source` says; "skip" leaves it out
        and counts it in the data card.
      num_shards: Clients that the train file of "text" is dealt to; valid and test files are
        dealt to as many clients of about the same size as their length allows.
      synthetic_typists: Users of "synthetic".
      synthetic_messages: Mean messages of a synthetic typist.
    """

    source: Source = "synthetic"
    input: str | tuple[str, ...] = ()
    store: str = "data/synthetic"
    vocabulary_size: int = 10_000
    min_word_count: checks.FromOne = 1
    min_word_users: checks.FromZero = 0
    vocabulary_epsilon: checks.NotNegative = 0.0
    vocabulary_delta: checks.OpenShare = 1e-8
    vocabulary_words_per_person: checks.FromOne = 200
    vocabulary_path: str = ""
    max_length: Annotated[int, checks.at_least(2)] = 64
    long_messages: Literal["continue", "keep", "split"] = "continue"
    mode: Literal["words", "whitespace"] = "words"
    lowercase: bool = True
    language: Literal["en", "de", "tr"] = "en"
    seed: checks.FromZero = 1
    validation_fraction: float = 0.1
    held_out_fraction: float = 0.1
    later_fraction: checks.Fraction = 0.0
    dedup_min_words: checks.FromZero = 5
    min_messages_per_user: checks.FromOne = 1
    max_users: checks.FromZero = 0
    on_bad_line: Literal["error", "skip"] = "error"
    num_shards: checks.FromOne = 100
    synthetic_typists: Annotated[int, checks.at_least(3)] = 200
    synthetic_messages: checks.FromOne = 60

    def __post_init__(self) -> None:
        super().__post_init__()
        paths = (self.input,) if isinstance(self.input, str) else self.input
        self.require(all(paths), "input", "must not hold an empty path")
        self.require(
            self.source != "synthetic" or not paths,
            "input",
            "must be empty with `data.source` = 'synthetic'",
            "Set `data.source` to what the file is.",
        )
        self.require(bool(self.store), "store", "must name a folder")
        self.require(
            self.vocabulary_size > 4,
            "vocabulary_size",
            "must be > 4, as it counts the four special rows",
        )
        self.require(
            not (self.vocabulary_epsilon and self.vocabulary_path),
            "vocabulary_epsilon",
            "must be 0 with `data.vocabulary_path`: the words are given",
        )
        self.require(
            not self.vocabulary_epsilon or (self.min_word_count == 1 and not self.min_word_users),
            "vocabulary_epsilon",
            "needs `data.min_word_count` = 1 and `data.min_word_users` = 0: exact counts would "
            "decide beside the noisy ones",
        )
        for name in ("validation_fraction", "held_out_fraction"):
            value = getattr(self, name)
            self.require(
                0 < value < 1,
                name,
                "must be in (0, 1)",
                "Evaluation needs people the model never trained on.",
            )
        self.require(
            self.validation_fraction + self.held_out_fraction < 1,
            "validation_fraction",
            f"plus `data.held_out_fraction` ({self.held_out_fraction}) must be < 1",
            "Leave users to train on.",
        )
        self.require(
            self.later_fraction == 0 or self.source not in _SPLIT_BY_TIME_IN_FILE,
            "later_fraction",
            f"must be 0 with `data.source` = {self.source!r}, whose file splits by time itself",
        )

    @property
    def is_published_text(self) -> bool:
        """Whether clients are parts of a text that is nobody's, and its files say which are whose.

        >>> DataConfig(source="articles", input="wikitext2").is_published_text
        True
        """
        return self.source in ("text", "articles")
