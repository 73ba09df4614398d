"""Where text comes from and how `prepare` makes a client store of it."""

import dataclasses

from tff_keyboard.config.reading.checks import (
    require,
    require_at_least,
    require_fraction,
    require_one_of,
)

SOURCES = ("synthetic", "tsv", "text", "articles", "stackoverflow", "shakespeare")
MODES = ("words", "whitespace")
ON_BAD_LINE = ("error", "skip")
LONG_MESSAGES = ("continue", "keep", "split")

# These bring their own split by time, in the file.
_SPLIT_BY_TIME_IN_FILE = ("stackoverflow", "shakespeare")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig:
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
        with "text" and "articles", whose clients are not people). Not used with
        `vocabulary_path`.
      vocabulary_epsilon: Price of a private choice of words, > 0; 0 goes by exact counts. With one,
        `min_word_count` and `min_word_users` have no say: noise and a threshold do
        (privacy/accounting/private_vocabulary.py), and every new store is a new release.
      vocabulary_delta: Its delta, in (0, 1).
      vocabulary_words_per_person: Distinct words of a person that count, the most typed; >= 1.
      vocabulary_path: Vocabulary file to encode with, in place of one built from train users.
      max_length: Targets of a sequence in training, the end of message among them; >= 2.
      long_messages: What becomes of messages with more targets. "continue": they go on in further
        sequences, without an end where they are cut and without a begin where they go on. "keep":
        what is beyond is not trained on. "split": `prepare` makes several messages of them, after
        sentence ends, which only `mode` = "whitespace" keeps; long sentences go on as in
        "continue". The store holds whole messages, except with "split".
      mode: "words" (for typed text), or "whitespace" (text is tokenised already: split only).
      lowercase: Whether tokens are made lower case.
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

    source: str = "synthetic"
    input: str | tuple[str, ...] = ()
    store: str = "data/synthetic"
    vocabulary_size: int = 10_000
    min_word_count: int = 1
    min_word_users: int = 0
    vocabulary_epsilon: float = 0.0
    vocabulary_delta: float = 1e-8
    vocabulary_words_per_person: int = 200
    vocabulary_path: str = ""
    max_length: int = 64
    long_messages: str = "continue"
    mode: str = "words"
    lowercase: bool = True
    seed: int = 1
    validation_fraction: float = 0.1
    held_out_fraction: float = 0.1
    later_fraction: float = 0.0
    dedup_min_words: int = 5
    min_messages_per_user: int = 1
    max_users: int = 0
    on_bad_line: str = "error"
    num_shards: int = 100
    synthetic_typists: int = 200
    synthetic_messages: int = 60

    def __post_init__(self) -> None:
        require_one_of("data.source", self.source, SOURCES)
        paths = (self.input,) if isinstance(self.input, str) else self.input
        require(all(paths), "data.input", "must not hold an empty path", self.input)
        require(
            self.source != "synthetic" or not paths,
            "data.input",
            "must be empty with `data.source` = 'synthetic'",
            self.input,
            "Set `data.source` to what the file is.",
        )
        require(bool(self.store), "data.store", "must name a folder", self.store)
        require(
            self.vocabulary_size > 4,
            "data.vocabulary_size",
            "must be > 4, as it counts the four special rows",
            self.vocabulary_size,
        )
        require_at_least("data.min_word_count", self.min_word_count, 1)
        require_at_least("data.min_word_users", self.min_word_users, 0)
        require_at_least("data.vocabulary_epsilon", self.vocabulary_epsilon, 0)
        require(
            0 < self.vocabulary_delta < 1,
            "data.vocabulary_delta",
            "must be in (0, 1)",
            self.vocabulary_delta,
        )
        require_at_least("data.vocabulary_words_per_person", self.vocabulary_words_per_person, 1)
        require(
            not (self.vocabulary_epsilon and self.vocabulary_path),
            "data.vocabulary_epsilon",
            "must be 0 with `data.vocabulary_path`: the words are given",
            self.vocabulary_epsilon,
        )
        require(
            not self.vocabulary_epsilon or (self.min_word_count == 1 and not self.min_word_users),
            "data.vocabulary_epsilon",
            "needs `data.min_word_count` = 1 and `data.min_word_users` = 0: exact counts would "
            "decide beside the noisy ones",
            self.vocabulary_epsilon,
        )
        require_at_least("data.max_length", self.max_length, 2)
        require_one_of("data.long_messages", self.long_messages, LONG_MESSAGES)
        require_one_of("data.mode", self.mode, MODES)
        require_at_least("data.seed", self.seed, 0)
        for name in ("validation_fraction", "held_out_fraction"):
            value = getattr(self, name)
            require(
                0 < value < 1,
                f"data.{name}",
                "must be in (0, 1)",
                value,
                "Evaluation needs people the model never trained on.",
            )
        require(
            self.validation_fraction + self.held_out_fraction < 1,
            "data.validation_fraction",
            f"plus `data.held_out_fraction` ({self.held_out_fraction}) must be < 1",
            self.validation_fraction,
            "Leave users to train on.",
        )
        require_fraction("data.later_fraction", self.later_fraction)
        require(
            self.later_fraction == 0 or self.source not in _SPLIT_BY_TIME_IN_FILE,
            "data.later_fraction",
            f"must be 0 with `data.source` = {self.source!r}, whose file splits by time itself",
            self.later_fraction,
        )
        require_at_least("data.dedup_min_words", self.dedup_min_words, 0)
        require_at_least("data.min_messages_per_user", self.min_messages_per_user, 1)
        require_at_least("data.max_users", self.max_users, 0)
        require_one_of("data.on_bad_line", self.on_bad_line, ON_BAD_LINE)
        require_at_least("data.num_shards", self.num_shards, 1)
        require_at_least("data.synthetic_typists", self.synthetic_typists, 3)
        require_at_least("data.synthetic_messages", self.synthetic_messages, 1)

    @property
    def is_published_text(self) -> bool:
        """Whether clients are parts of a text that is nobody's, and its files say which are whose.

        >>> DataConfig(source="articles", input="wikitext2").is_published_text
        True
        """
        return self.source in ("text", "articles")
