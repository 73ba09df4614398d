"""`[data]`: the source of the text, and how `prepare` converts it to a client store."""

import dataclasses
import typing
from typing import Annotated, ClassVar, Literal, TypeAlias

from tff_keyboard.parts.own_part import OwnPart
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage import checks
from tff_keyboard.storage.part_reference import is_reference

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

SOURCES: tuple[str, ...] = typing.get_args(Source)

Language: TypeAlias = Literal["en", "de", "tr", "es", "nl", "pt"]

# The files of these sources contain their own split by time.
_SPLIT_BY_TIME_IN_FILE = ("stackoverflow", "shakespeare")
COLUMN_KEYS = ("client_column", "text_column", "time_column")
# "synthetic" is the default: `prepare` then detects the source of its input.
_WITH_COLUMNS = ("csv", "jsonl", "parquet", "auto", "synthetic")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnSource(OwnPart, path="data.source_options"):
    """A text source of the user: the part returns pairs of a client and the text of a message.

    Parameters with these names get values of the run: `files` (the paths of `data.input`) and
    `seed`.
    """

    KEY: ClassVar[str] = "data.source"
    READS_TEXT: ClassVar[bool] = True
    GROUP: ClassVar[str] = "tff_keyboard.text_sources"
    RUN_VALUES: ClassVar[tuple[str, ...]] = ("files", "seed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig(Table, path="data"):
    """The text, the vocabulary, and the division of users into populations.

    Attributes:
      source: Format of the input. "synthetic": generated users, without input. "tsv": lines
        `user<TAB>text`, plain or gzip. "csv", "jsonl" or "parquet": tables with a client column and
        a text column. "whatsapp", "telegram", "sms_backup", "discord", "messenger" or "slack":
        exported chats. "auto": any of the formats from "csv" to "slack"; the extension and the
        first bytes of each file tell which. "text": train, validation and test files, whose lines
        are divided among clients of about equal size. "stackoverflow" or "shakespeare": the SQLite
        files of TFF's data sets with these names. Or the user's own part, "file.py:function".
      source_options: Options of a source that is the user's own part; see docs/own_parts.md.
      input: One or more paths; `$NAME` and `~` are expanded. For "text": a folder with train.txt,
        valid.txt and test.txt, or these three files in this order. Must be empty for "synthetic".
      client_column: Name of the column that identifies the client, for "csv", "jsonl" and
        "parquet". For "csv" files whose first line has no names: position of the column, counted
        from 1. With "", `prepare` guesses the column.
      text_column: Name or position of the column with the text, as for `client_column`.
      time_column: Name or position of the column with the time of a message, as for
        `client_column`. Messages are sorted by this time; with "" they keep the order of the file.
        Times are ISO 8601 strings, or numbers: seconds since 1970, or milliseconds and smaller
        units if the numbers are that large.
      store: Folder of the client store that `prepare` writes and `train` reads.
      vocabulary_size: Number of rows of the word table, including the four special tokens; > 4. The
        table has fewer rows if train users typed fewer distinct words. Not used with
        `vocabulary_path`.
      min_word_count: Minimum number of occurrences of a word in the vocabulary, >= 1. With 1, the
        vocabulary of a small corpus can contain all of its words. Training then never sees an
        out-of-vocabulary word (OOV). Not used with `vocabulary_path`.
      min_word_users: Minimum number of train users who typed a word of the vocabulary. It protects
        rare words such as names, because every phone receives the vocabulary in clear text. 0
        chooses the minimum: 5 for 1,000 or more users, 2 for fewer users, and 1 for "text", where
        clients are not persons. With `vocabulary_path` it applies only to the capitalised forms of
        words.
      vocabulary_epsilon: Epsilon of a vocabulary that is chosen with differential privacy, > 0; 0
        chooses by exact counts, without a guarantee. With an epsilon, noise and a threshold
        (privacy/accounting/private_vocabulary.py) replace `min_word_count` and `min_word_users`.
        Every new store then releases a vocabulary and costs its own epsilon.
      vocabulary_delta: Delta of a vocabulary that is chosen with differential privacy. Used if
        `vocabulary_epsilon` > 0.
      vocabulary_words_per_client: Maximum number of distinct words that one user contributes to a
        vocabulary chosen with differential privacy: the words that the user typed most often. Used
        if `vocabulary_epsilon` > 0.
      vocabulary_path: Existing vocabulary to use: a vocabulary file, or a model or run that
        contains one. With "", `prepare` builds a vocabulary from the text of the train users.
      max_length: Maximum number of target tokens in a training sequence, including the end of the
        message.
      long_messages: How to train on messages with more than `max_length` targets. "continue" trains
        on the rest of the message in further sequences, which have no end token at a cut and no
        begin token after it. "truncate" ignores the rest. "split" makes `prepare` split the message
        at the ends of its sentences into several messages; sentences that are still too long are
        treated as with "continue". Ends of sentences are only known with `mode` = "whitespace". The
        store contains whole messages, except with "split".
      mode: How text is split into tokens. "words" is for typed text. "whitespace" is for text that
        is already tokenised, and splits it at spaces.
      lowercase: Whether tokens are converted to lower case.
      language: Language of the text. It determines how letters are lowercased, and which keys,
        corrections and blocklist a keyboard has.
      seed: Seed for the assignment of users to populations, for the division of "text" lines among
        clients, and for synthetic text.
      validation_fraction: Share of users for validation during training, in (0, 1).
      held_out_fraction: Share of users for the final evaluation, in (0, 1). `validation_fraction`
        and this share must add up to less than 1. "text" has files for validation and test instead,
        and "stackoverflow" has held-out users of its own.
      later_fraction: Share of each train user's messages that is kept from training. The last
        messages of the user are taken; they form the population `train_later`. With 0 there is no
        such population.
      dedup_min_words: Repeated messages of a user are dropped if they have at least this many
        words; 0 keeps all messages. Not used with "text".
      min_messages_per_user: Minimum number of messages of a user. Users with fewer messages are
        left out, and the data card says how many.
      max_users: Maximum number of users to read, for large files. The users are chosen by a hash of
        their names. 0 reads all. Not used with "text".
      on_bad_line: What to do with a line that is not valid in the format of `source`. "error"
        stops. "skip" leaves the line out; the data card says how many lines were skipped.
      num_shards: Number of clients among which the train file of "text" is divided. The validation
        and test files are divided among clients of about the same size.
      synthetic_typists: Number of generated users, for "synthetic".
      synthetic_messages: Mean number of messages of a generated user, for "synthetic".
    """

    source: str = "synthetic"
    source_options: dict[str, bool | int | float | str] = dataclasses.field(default_factory=dict)
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
    vocabulary_words_per_client: checks.FromOne = 200
    vocabulary_path: str = ""
    max_length: Annotated[int, checks.at_least(2)] = 64
    long_messages: Literal["continue", "truncate", "split"] = "continue"
    mode: Literal["words", "whitespace"] = "words"
    lowercase: bool = True
    language: Language = "en"
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
        if self.source in SOURCES:
            self.require(
                not self.source_options,
                "source_options",
                f"must be empty with `data.source` = {self.source!r}",
            )
        elif is_reference(self.source) or OwnSource.is_registered(self.source):
            self.own_source()  # checks its options
        else:
            allowed = (*SOURCES, *OwnSource.registered_names())
            checks.require_one_of("data.source", self.source, allowed)
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

    def own_source(self) -> OwnSource:
        """Returns the user's own part that `source` names, with its options."""
        return OwnSource.read({"type": self.source, **self.source_options}, OwnSource.PATH)

    @property
    def has_columns(self) -> bool:
        """Whether the config names a column of the input."""
        return any(getattr(self, name) for name in COLUMN_KEYS)
