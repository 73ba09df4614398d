"""The results of `person`, one user a line, so that a long run can be stopped and resumed.

    line 1   JSON: the facts that the results depend on
    then     JSON, one user a line, sorted by name after all are done

A line without its line feed was cut by a kill, and its user is measured again. Users have the names
that `ClientStore.pseudonym` gives them. They are not stored in the order in which they were drawn:
that order follows from their ids, so that a list of ids would reveal who has which name.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping

from tff_keyboard.storage import files, json_text
from tff_keyboard.storage.errors import DataError
from tff_keyboard_app.personalisation.person import PersonResult

FORMAT = "tff-keyboard personalisation 2"


class Records:
    """The file of a new or a resumed run.

    Results by pseudonym of a user depend on the facts: model, users, settings, as JSON values.

    Raises:
      DataError: If the file is of a run with other facts, or damaged.
      ProgramError: If the file cannot be written.
    """

    def __init__(
        self, path: pathlib.Path, facts: Mapping[str, object], pseudonym: Callable[[str], str]
    ):
        self._path = path
        self._pseudonym = pseudonym
        self.results: dict[str, PersonResult] = {}
        self._header = {"format": FORMAT, **facts}
        content = _whole_lines(path)
        if content:
            self._check(self._header, content[0])
        for number, line in enumerate(content[1:], start=2):
            try:
                row = json_text.parse(line)
                client = row.pop("person")
                self.results[client] = PersonResult(**row)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise DataError(
                    f"{path}, line {number}: not a result. Remove the file to start again."
                ) from None
        self.sort()  # removes a line that a kill has cut, so that lines can be added

    def __contains__(self, client: str) -> bool:
        return self._pseudonym(client) in self.results

    def add(self, client: str, result: PersonResult) -> None:
        """Adds a result. It is on disk when the method returns.

        Raises:
          ProgramError: If the file cannot be written.
        """
        name = self._pseudonym(client)
        line = _line({"person": name, **dataclasses.asdict(result)})
        files.append(self._path, line, mode=files.OWNER_ONLY)
        self.results[name] = result

    def sort(self) -> None:
        """Writes all results again, sorted by name.

        Raises:
          ProgramError: If the file cannot be written. It stays unchanged.
        """
        rows = [
            {"person": name, **dataclasses.asdict(result)}
            for name, result in sorted(self.results.items())
        ]
        lines = [_line(content) for content in (self._header, *rows)]
        files.write_atomically(self._path, lines, mode=files.OWNER_ONLY)

    def of(self, people: list[str]) -> list[PersonResult]:
        """Returns the results of `people`, in this order. All must exist."""
        return [self.results[self._pseudonym(client)] for client in people]

    def _check(self, header: Mapping[str, object], line: bytes) -> None:
        """Raises `DataError` unless the first line has the facts of this run."""
        try:
            first_line = json_text.parse(line)
        except ValueError:
            first_line = None
        if not isinstance(first_line, dict) or first_line.get("format") != FORMAT:
            raise DataError(f"{self._path}: not a file of {FORMAT!r}. Remove it, or choose --out.")
        other = sorted(name for name in header if first_line.get(name) != header[name])
        if other:
            raise DataError(
                f"{self._path}: was started with another {', '.join(other)}. Use the same value "
                "to continue, or another --out."
            )


def _whole_lines(path: pathlib.Path) -> list[bytes]:
    """Returns the complete lines of a file; [] if there is none."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def _line(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, sort_keys=True, allow_nan=False).encode() + b"\n"
