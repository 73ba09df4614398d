"""`[data]`: the source of the text, and how `prepare` converts it to a client store."""

import dataclasses
from typing import Annotated, Literal, TypeAlias

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.storage import checks

Source: TypeAlias = Literal[
    "synthetic",
    "tsv",
    "csv",
    "jsonl",
    "parquet",
    "whatsapp",
    "telegram",
    "sms_backup",
    "discord",
    "messenger",
    "slack",
    "auto",
    "text",
    "stackoverflow",
    "shakespeare",
]

# The files of these sources contain their own split by time.
_SPLIT_BY_TIME_IN_FILE = ("stackoverflow", "shakespeare")
COLUMN_KEYS = ("client_column", "text_column", "time_column")
# "synthetic" is the default: `prepare` then detects the source of its input.
_WITH_COLUMNS = ("csv", "jsonl", "parquet", "auto", "synthetic")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig(Table, path="data"):
    """Input text, tokens, and the split into populations.

    Attributes:
      source: "synthetic" (generated users, no input), "tsv" (lines `user<TAB>text`, plain or gzip),
        "csv", "jsonl" or "parquet" (tables with a client column and a text column), "whatsapp",
        "telegram", "sms_backup", "discord", "messenger" or "slack" (exported chats), "auto" (any of
        the formats from "csv" on, each file by its extension and first bytes), "text" (train, valid
        and test files, divided among clients of equal size), "stackoverflow" or "shakespeare"
        (TFF's SQLite files of that name).
      input: One or more paths; `$NAME` and `~` are expanded. For "text": a folder with train.txt,
        valid.txt and test.txt, or those three files in this order. Empty for "synthetic".
      client_column: Column of "csv", "jsonl" and "parquet" that identifies the client: a name, or
        for "csv" a position from 1 if the first line has no names. "" guesses the column.
      text_column: Column with the text, in the same way.
      time_column: Column with the time, which orders the messages; "" keeps the order of the file.
        Numbers are seconds since 1970 (or milliseconds and so on, by their size), strings are ISO
        8601.
      store: Folder of the client store that `prepare` writes and `train` reads.
      vocabulary_size: V, rows of the word table including the four special ones; > 4. The table has
        fewer rows if train users typed fewer distinct words. Not used with `vocabulary_path`.
      min_word_count: Words that occur less often are not in the vocabulary; >= 1. With 1, the
        vocabulary of a small corpus may contain all of its words, and then training never sees the
        OOV row. Not used with `vocabulary_path`.
      min_word_users: Words that fewer train users typed are not in the vocabulary, which every
        phone receives in clear text; >= 1. 0 depends on the number of users: 5 from 1,000 users on,
        otherwise 2 (and 1 for "text", whose clients are not people). With `vocabulary_path` it only
        applies to capitalised forms.
      vocabulary_epsilon: Epsilon of a private choice of words, > 0; 0 uses exact counts. With an
        epsilon, noise and a threshold (privacy/accounting/private_vocabulary.py) replace
        `min_word_count` and `min_word_users`, and every new store is a new release.
      vocabulary_delta: Delta of a private choice of words, in (0, 1).
      vocabulary_words_per_person: Largest number of distinct words of a user that count, the most
        frequent first; >= 1.
      vocabulary_path: Vocabulary to encode with, instead of one built from train users: a file, or
        a model or run that contains one.
      max_length: Targets of a training sequence, including the end of the message; >= 2.
      long_messages: Treatment of messages with more targets. "continue" continues them in further
        sequences, which have no end token at a cut and no begin token after it. "truncate" does not
        train on the tokens beyond `max_length`. "split" makes `prepare` split them into several
        messages at sentence ends, which only `mode` = "whitespace" keeps; long sentences continue
        as with "continue". The store holds whole messages, except with "split".
      mode: "words" (for typed text), or "whitespace" (for tokenised text, which is only split).
      lowercase: Whether tokens are converted to lower case.
      language: Language of the text. It determines lower case, and the keys, corrections and
        blocklist of a keyboard.
      seed: Seed of the populations, of the division of "text" lines among clients, and of synthetic
        text; >= 0.
      validation_fraction: Share of users for validation, > 0.
      held_out_fraction: Share of users for the final evaluation, > 0. The sum of both is < 1.
        "text" has a file for each instead, and "stackoverflow" has its own held-out users.
      later_fraction: Share of each train user's messages, the last ones, that form the separate
        population `train_later`; 0 means none.
      dedup_min_words: A message of at least this many words is dropped if it repeats an earlier one
        of its user; 0 keeps all. Not used with "text".
      min_messages_per_user: Users with fewer messages are left out (and counted); >= 1.
      max_users: Number of users to read, chosen by hash; 0 means all. For large files; not used
        with "text".
      on_bad_line: "error" stops at a line that is not valid for `source`; "skip" leaves it out and
        counts it in the data card.
      num_shards: Number of clients among which the train file of "text" is divided. Valid and test
        files are divided among clients of about the same size.
      synthetic_typists: Number of users of "synthetic".
      synthetic_messages: Mean number of messages of a synthetic user.
    """

    source: Source = "synthetic"
    input: str | tuple[str, ...] = ()
    client_column: str = ""
    text_column: str = ""
    time_column: str = ""
    store: str = "data/synthetic"
    vocabulary_size: int = 10_000
    min_word_count: checks.FromOne = 1
    min_word_users: checks.FromZero = 0
    vocabulary_epsilon: checks.NotNegative = 0.0
    vocabulary_delta: checks.OpenShare = 1e-8
    vocabulary_words_per_person: checks.FromOne = 200
    vocabulary_path: str = ""
    max_length: Annotated[int, checks.at_least(2)] = 64
    long_messages: Literal["continue", "truncate", "split"] = "continue"
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
        self.require(all(paths), "input", "must not have an empty path")
        self.require(
            self.source != "synthetic" or not paths,
            "input",
            "must be empty with `data.source` = 'synthetic'",
            "Set `data.source` to the format of the file.",
        )
        if self.has_columns and self.source not in _WITH_COLUMNS:
            name = next(name for name in COLUMN_KEYS if getattr(self, name))
            self.require(
                False,
                name,
                f"must be empty with `data.source` = {self.source!r}, which has no columns",
            )
        self.require(bool(self.store), "store", "must be a folder")
        self.require(
            self.vocabulary_size > 4,
            "vocabulary_size",
            "must be > 4, because it includes the four special rows",
        )
        self.require(
            not (self.vocabulary_epsilon and self.vocabulary_path),
            "vocabulary_epsilon",
            "must be 0 with `data.vocabulary_path`, which already has the words",
        )
        self.require(
            not self.vocabulary_epsilon or (self.min_word_count == 1 and not self.min_word_users),
            "vocabulary_epsilon",
            "needs `data.min_word_count` = 1 and `data.min_word_users` = 0: exact counts would "
            "influence the private choice",
        )
        for name in ("validation_fraction", "held_out_fraction"):
            value = getattr(self, name)
            self.require(
                0 < value < 1,
                name,
                "must be in (0, 1)",
                "Evaluation needs clients that the model never trained on.",
            )
        self.require(
            self.validation_fraction + self.held_out_fraction < 1,
            "validation_fraction",
            f"plus `data.held_out_fraction` ({self.held_out_fraction}) must be < 1",
            "Some users must remain for training.",
        )
        self.require(
            self.later_fraction == 0 or self.source not in _SPLIT_BY_TIME_IN_FILE,
            "later_fraction",
            f"must be 0 with `data.source` = {self.source!r}, whose file is already split by time",
        )

    @property
    def has_columns(self) -> bool:
        """Whether the config names a column of the input."""
        return any(getattr(self, name) for name in COLUMN_KEYS)
