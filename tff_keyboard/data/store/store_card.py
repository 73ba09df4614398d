"""The data card of a client store: its content, and the digests that verify it."""

import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any, cast

from typing_extensions import NotRequired, TypedDict

from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.storage import directories, errors, files, json_text, names

CARD_FORMAT = 1

_COUNTABLE = {"bot", "event", "header", "line", "poll", "reaction"}  # words of reasons

# Held-out text that an export is judged on. With less, the figures of a broken file may be perfect
# by chance.
MIN_HELD_OUT_WORDS = 1_000
MIN_HELD_OUT_CLIENTS = 5


class Histogram(TypedDict):
    """The distribution of a number."""

    min: int
    median: int  # the lower of the two middle values
    max: int
    bins: dict[str, int]  # "1-1", "2-3", "4-7", ... -> count


class PopulationFacts(TypedDict):
    """A population. Rates are in [0, 1]. The two `by_counts` exist only if words were chosen."""

    clients: int
    messages: int
    words: int
    oov_words: int
    oov_rate: float
    oov_words_by_counts: NotRequired[int]
    oov_rate_by_counts: NotRequired[float]
    masks: int
    long_messages: int
    truncated_messages: int
    truncated_messages_rate: float
    truncated_words: int
    truncated_words_rate: float
    words_per_message: Histogram
    words_per_client: Histogram
    messages_per_client: Histogram


class CaseFacts(TypedDict):
    """The accuracy of a table of forms for users outside it. Rates are in [0, 1]."""

    words_inside_sentences: int
    accuracy_with_table: float
    accuracy_in_lower_case: float
    capitals_typed_rate: float
    capitals_shown_right_rate: float
    shown_capitals_wrong_rate: float
    messages: int
    messages_begun_with_capital_rate: float


class TruecaseFacts(TypedDict):
    """The table of forms: its size and its accuracy."""

    forms: int
    held_out: CaseFacts


class InputFacts(TypedDict):
    """An input file."""

    name: str
    bytes: int
    sha256: str


class Identity(TypedDict):
    """The inputs and options that determine the content of a store."""

    inputs: list[InputFacts]
    options: dict[str, object]


class Card(Identity):
    """The complete card. `vocabulary` has the table's size and how its words were chosen."""

    format: int
    populations: dict[str, PopulationFacts]
    vocabulary: dict[str, Any]
    truecase: NotRequired[TruecaseFacts]
    columns: NotRequired[list[str]]  # descriptions of the input columns that were read
    repairs: NotRequired[list[str]]  # defects of input files that did not prevent the reading
    skipped_lines: dict[str, int]
    dropped: dict[str, int]
    store_sha256: str
    lengths_sha256: str
    file_bytes: dict[str, int]


def read_card(directory: pathlib.Path) -> Card:
    """Reads and checks the card of a store, and the sizes of the files that it names.

    Raises `DataError` if there is no card, it is damaged or of another format, or a file is missing
    or has another size.
    """
    way_out = "Run `tff-keyboard prepare` again (--overwrite replaces a store)."
    directories.restore(directory)
    path = directory / names.DATA_CARD
    try:
        card = json_text.parse(files.content(path, follow_link=True))
    except (FileNotFoundError, NotADirectoryError):
        if directory == pathlib.Path(names.NO_STORE):
            raise errors.DataError(
                "The run was trained on client data of a program, and no store has its text. Make "
                "a store with tff-keyboard prepare FILES --vocabulary=RUN --out=STORE and pass "
                "--store=STORE, or evaluate in Python with `tk.evaluation.evaluate_client_data`."
            ) from None
        if not directory.exists():
            raise errors.DataError(
                f"{directory}: there is no such folder. Create a client store with `tff-keyboard "
                "prepare`, with the --config of the training or with its files and --out."
            ) from None
        raise errors.DataError(
            f"{directory}: is not a client store: it has no {names.DATA_CARD}. Pass the folder "
            "that `tff-keyboard prepare` wrote."
        ) from None
    except OSError as error:
        raise errors.DataError(f"{path}: cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise errors.DataError(f"{path}: is damaged: {error}. {way_out}") from None
    if not isinstance(card, dict) or card.get("format") != CARD_FORMAT:
        raise errors.DataError(f"{path}: is not a data card of format {CARD_FORMAT}. {way_out}")
    for field, kind in (("file_bytes", dict), ("vocabulary", dict), ("store_sha256", str)):
        if not isinstance(card.get(field), kind):
            raise errors.DataError(f"{path}: is damaged: {field!r} is missing. {way_out}")
    for name, size in card["file_bytes"].items():
        file = directory / name
        if not file.is_file() or file.stat().st_size != size:
            raise errors.DataError(f"{file}: is missing, or was changed after `prepare`. {way_out}")
    return cast(Card, card)


def card_hash(directory: pathlib.Path) -> str:
    """Returns the SHA-256 of the card's bytes in hex, which identifies the data of a run."""
    return hashlib.sha256(files.content(directory / names.DATA_CARD, follow_link=True)).hexdigest()


def rate(part: int, total: int) -> float:
    """Returns a share in [0, 1], rounded to six digits as in cards; 0 if `total` is 0."""
    return round(part / total, 6) if total else 0.0


def remark_on_held_out(populations: Mapping[str, Any]) -> str:
    """Returns a sentence if a model could not be judged on the held-out clients, otherwise ""."""
    held_out = populations.get("held_out", {"clients": 0, "words": 0})
    if held_out["clients"] >= MIN_HELD_OUT_CLIENTS and held_out["words"] >= MIN_HELD_OUT_WORDS:
        return ""
    return (
        f"{held_out['clients']} clients with {held_out['words']:,} words are held out, but an "
        f"export needs at least {MIN_HELD_OUT_CLIENTS} clients and {MIN_HELD_OUT_WORDS:,} words to "
        "judge the model. Before you train, add clients, or raise `data.held_out_fraction` and run "
        "`prepare` again."
    )


def summary(card: Card) -> str:
    """Returns a data card as a short table."""
    lines = [f"{'':12}{'clients':>9}{'messages':>11}{'words':>13}{'OOV':>8}{'cut':>8}"]
    for name in ("train", "validation", "held_out", "train_later"):
        part = card["populations"].get(name)
        if part:
            lines.append(
                f"{name:12}{part['clients']:9,}{part['messages']:11,}{part['words']:13,}"
                f"{part['oov_rate']:8.1%}{part['truncated_words_rate']:8.1%}"
            )
    lines += [f"columns: {line}" for line in card.get("columns", [])]
    lines += [f"repaired: {line}" for line in card.get("repairs", [])]
    vocabulary = card["vocabulary"]
    lines.append(
        f"vocabulary: {vocabulary['rows'] - NUM_SPECIAL:,} words and {NUM_SPECIAL} special rows, "
        f"from {vocabulary['from']} ({vocabulary['distinct_train_words']:,} distinct words in "
        "train). "
        f"cut: share of words after the first {card['options']['max_length']} of a message, if "
        "training ignores them (`data.long_messages`)."
    )
    if "min_word_users" in vocabulary:
        lines.append(_clients_line(card))
    if "truecase" in card and card["truecase"]["forms"]:
        lines.append(_case_line(card["truecase"]))
    for title, counts in (("skipped", card["skipped_lines"]), ("dropped", card["dropped"])):
        if counts:
            listed = ", ".join(_with_reason(count, reason) for reason, count in counts.items())
            lines.append(f"{title}: {listed}")
    return "\n".join(lines)


def _with_reason(count: int, reason: str) -> str:
    """Returns a number of skipped lines with their reason.

    >>> _with_reason(1, "header"), _with_reason(39, "line_of_whatsapp"), _with_reason(2, "no_words")
    ('1 header', '39 lines of whatsapp', '2 no words')
    """
    words = reason.split("_")
    if count != 1:
        words = [f"{word}s" if word in _COUNTABLE else word for word in words]
    return f"{count:,} {' '.join(words)}"


def _clients_line(card: Card) -> str:
    """Returns a line with the effect of `data.min_word_users`: excluded words, OOV rates."""
    vocabulary, populations = card["vocabulary"], card["populations"]
    rates = ", ".join(
        f"{populations[name]['oov_rate_by_counts']:.1%} -> {populations[name]['oov_rate']:.1%} "
        f"({name})"
        for name in ("train", "held_out")
        if name in populations
    )
    alone, fewest = vocabulary["words_of_one_person"], vocabulary["min_word_users"]
    rule = (
        f"words of fewer than {fewest} users are not in the vocabulary (`data.min_word_users`); "
        f"{alone:,} words were typed by only one user"
        if fewest > 1
        else f"words of only one user can be in the vocabulary (`data.min_word_users` = 1): "
        f"{vocabulary['rows_of_one_person']:,} of {alone:,} are"
    )
    return (
        f"rule: {rule}. {vocabulary['identifiers_left_out']:,} numbers, hashes and time stamps "
        f"are not in it either.\nOOV without -> with this rule: {rates}"
    )


def _case_line(truecase: TruecaseFacts) -> str:
    """Returns a line with the accuracy of the table of forms for held-out users."""
    held_out = truecase["held_out"]
    return (
        f"capitals: {truecase['forms']:,} words are stored with capitals. Held-out words inside "
        f"sentences are shown as typed in {held_out['accuracy_with_table']:.1%} of their uses "
        f"({held_out['accuracy_in_lower_case']:.1%} without capitals); "
        f"{held_out['messages_begun_with_capital_rate']:.1%} of the messages begin with a capital."
    )
