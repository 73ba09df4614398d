"""The client cache: text that a user typed, kept on the device until a round has used it.

It is an SQLite file that only its owner can read, as in Hard et al. 2018, section 5.2
(https://arxiv.org/abs/1811.03604). It has the text by kind of app, with the candidates that the
decoder showed for each word, so that the recall of any decoder can be computed from the cache alone
(their Table 4). An example is deleted when it is too old, when its kind of app has too many, and
after it was trained on (Popov et al. 2018, section 3.2: "used only once and can be deleted after
the on-device training"). Deleted text is overwritten in the file. A program cannot control what the
flash memory under the file keeps.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import sqlite3
from collections.abc import Iterator, Sequence

from tff_keyboard.storage import files, json_text
from tff_keyboard.storage.errors import DataError, ProgramError

CATEGORIES = ("chat", "social", "web", "other")  # Hard et al. 2018, Table 2
LONGEST_TEXT = 10_000  # characters of an example

_SECONDS_A_DAY = 86_400.0
_SCHEMA = """
create table if not exists examples (
  id integer primary key autoincrement,
  typed_at real not null,  -- seconds since 1970
  category text not null,
  text text not null,
  candidates text  -- JSON: [[word, [candidate, ...]], ...]
);
create index if not exists by_category on examples (category, typed_at, id);
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """A message that was sent.

    Attributes:
      text: The message as it was typed.
      category: Kind of the app, one of `CATEGORIES`.
      candidates: Each word with the strip before its first letter, best first; None if there was no
        decoder.

    Raises:
      DataError: If the category is unknown, the text is too long or empty, or the candidates are
        not such pairs.
    """

    text: str
    category: str = "chat"
    candidates: Sequence[tuple[str, Sequence[str]]] | None = None

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            raise DataError(f"`category` must be one of {CATEGORIES}.")
        if not isinstance(self.text, str) or not 0 < len(self.text) <= LONGEST_TEXT:
            raise DataError(f"`text` must have 1 to {LONGEST_TEXT} characters.")
        try:
            are_words = all(
                isinstance(word, str) and all(isinstance(one, str) for one in words_shown)
                for word, words_shown in self.candidates or ()
            )
        except (TypeError, ValueError):
            are_words = False
        if not are_words:
            raise DataError("`candidates` must be pairs: a word, and a list of words.")


@dataclasses.dataclass(frozen=True)
class DecoderRecall:
    """The number of words with candidates, and of words that were among the first k candidates."""

    words: int
    hits: dict[int, int]  # k -> words

    def __str__(self) -> str:
        shares = (f"top-{k} {100 * n / max(self.words, 1):.2f} %" for k, n in self.hits.items())
        return f"decoder: {', '.join(shares)} of {self.words:,} words"


class ClientCache:
    """The cache of one device. Not thread-safe; several processes may use one file in turn.

    Args:
      path: The file. It is created with mode 0600 if it does not exist.

    Raises:
      DataError: If the file is not a cache.
      ProgramError: If the disk is full, or another process uses the file for too long. All methods
        raise this, too.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        with contextlib.suppress(FileExistsError):
            flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(path, flags, files.OWNER_ONLY))
        self._connection = sqlite3.connect(path, timeout=30)
        with self._transaction():
            self._connection.execute("pragma secure_delete = on")
            self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def add(self, examples: Sequence[Example], *, now: float, max_per_category: int) -> None:
        """Adds examples that were typed at `now`.

        Of each category, only the newest `max_per_category` examples remain.
        """
        rows = [
            (now, e.category, e.text, json.dumps(e.candidates) if e.candidates else None)
            for e in examples
        ]
        columns = "(typed_at, category, text, candidates)"
        with self._transaction():
            self._connection.executemany(
                f"insert into examples {columns} values (?, ?, ?, ?)", rows
            )
            self._keep_newest(max_per_category)

    def remove_old(
        self, *, now: float, ttl_days: float, max_per_category: int, is_clock_right: bool
    ) -> None:
        """Deletes examples older than `ttl_days`, and of each category all but the newest.

        Args:
          now: The time, in seconds since 1970.
          ttl_days: The largest age.
          max_per_category: Number of examples of a category that remain.
          is_clock_right: Whether something confirms `now`. Then examples of the future were typed
            while the clock was wrong, and count as typed at `now`. Otherwise they stay as they are:
            the clock may be behind now, and a new time would make them old once it is right.
        """
        with self._transaction():
            if is_clock_right:
                self._connection.execute(
                    "update examples set typed_at = :now where typed_at > :now", {"now": now}
                )
            oldest = now - ttl_days * _SECONDS_A_DAY
            self._connection.execute("delete from examples where typed_at < ?", [oldest])
            self._keep_newest(max_per_category)

    def __len__(self) -> int:
        with self._transaction():
            count: int = self._connection.execute("select count(*) from examples").fetchone()[0]
        return count

    def newest(self, limit: int) -> list[tuple[int, str]]:
        """Returns `(id, text)` of the newest examples, oldest first; all if `limit` is 0."""
        query = "select id, text from examples order by typed_at desc, id desc limit ?"
        with self._transaction():
            rows = self._connection.execute(query, [limit or -1]).fetchall()
        return rows[::-1]

    def delete(self, ids: Sequence[int]) -> None:
        """Deletes examples that were used. Ids that no longer exist are ignored."""
        with self._transaction():
            self._connection.executemany("delete from examples where id = ?", [(i,) for i in ids])

    def decoder_recall(self, ks: Sequence[int] = (1, 3)) -> DecoderRecall:
        """Returns the recall at each k of the candidates in the cache."""
        query = "select candidates from examples where candidates is not null"
        words, hits = 0, dict.fromkeys(ks, 0)
        with self._transaction():
            rows = self._connection.execute(query).fetchall()
        try:
            for (row,) in rows:
                for word, words_shown in json_text.parse(row):
                    words += 1
                    for k in ks:
                        hits[k] += word in words_shown[:k]
        except (ValueError, TypeError):
            raise DataError(
                f"{self._path}: has candidates that are damaged. Move the file away to start with "
                "an empty cache."
            ) from None
        return DecoderRecall(words, hits)

    def _keep_newest(self, limit: int) -> None:
        """Deletes all but the newest `limit` messages of each category."""
        self._connection.execute(
            "delete from examples where id in (select id from (select id, row_number() over "
            "(partition by category order by typed_at desc, id desc) as place from examples) "
            "where place > ?)",
            [limit],
        )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Runs one transaction. Errors of SQLite become `DataError` or `ProgramError`."""
        try:
            with self._connection:
                yield
        except sqlite3.Error as error:
            if files.is_transient(error):
                raise ProgramError(f"{self._path}: cannot be written now ({error}).") from None
            raise DataError(
                f"{self._path}: cannot be used as a client cache ({error}). If it is not a "
                "cache, move it away."
            ) from None


def read_typed(path: pathlib.Path) -> list[Example]:
    """Reads examples from a file: one JSON object a line, with the fields of `Example`.

    Raises:
      DataError: If a line is not valid. The message names the line and quotes nothing of it.
    """
    examples = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    examples.append(Example(**json_text.parse(line)))
                except (ValueError, TypeError) as error:
                    why = str(error) if isinstance(error, DataError) else "fields of an example"
                    raise DataError(
                        f"{path}, line {number}: not a valid example ({why})."
                    ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({type(error).__name__}).") from None
    return examples
