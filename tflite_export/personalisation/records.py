"""The results of `person`, one person per line, so that a long run can be stopped and resumed.

    line 1   JSON: what the results depend on
    then     JSON, a person each, sorted by name once all are there

A line without its line feed was cut by a kill and is measured again. People have the names that
`ClientStore.pseudonym` gives them. The order in which they were drawn follows from their ids: in
that order a list of ids would undo the names.
"""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import DataError
from tflite_export.personalisation.person import PersonResult

FORMAT = "tff-keyboard personalisation 2"


class Records:
    """The file of one run, new or of a run that was stopped.

    Results, by pseudonym of a person, depend on the facts: model, people, settings; as JSON has
    them. Raises `DataError` if the file is of a run with other facts, or damaged; `ProgramError` if
    it cannot be written.
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
                row = json.loads(line)
                person = row.pop("person")
                self.results[person] = PersonResult(**row)
            except (ValueError, TypeError, KeyError, AttributeError):
                raise DataError(
                    f"{path}, line {number}: not a result. Remove the file to begin anew."
                ) from None
        self.sort()  # what a kill left half is cut away, so that lines can be added again

    def __contains__(self, person: str) -> bool:
        return self._pseudonym(person) in self.results

    def add(self, person: str, result: PersonResult) -> None:
        """Keeps a result; on disk when it returns, or a `ProgramError`."""
        name = self._pseudonym(person)
        line = _line({"person": name, **dataclasses.asdict(result)})
        files.append(self._path, line, mode=files.OWNER_ONLY)
        self.results[name] = result

    def sort(self) -> None:
        """Writes all results again, sorted by name.

        Raises `ProgramError` if it cannot be written; the file is as it was.
        """
        rows = [
            {"person": name, **dataclasses.asdict(result)}
            for name, result in sorted(self.results.items())
        ]
        lines = [_line(content) for content in (self._header, *rows)]
        files.write_atomically(self._path, lines, mode=files.OWNER_ONLY)

    def of(self, people: list[str]) -> list[PersonResult]:
        """Their results, in this order; all must be there."""
        return [self.results[self._pseudonym(person)] for person in people]

    def _check(self, header: Mapping[str, object], line: bytes) -> None:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise DataError(f"{self._path}: not a file of {FORMAT!r}. Remove it, or choose --out.")
        other = sorted(name for name in header if found.get(name) != header[name])
        if other:
            raise DataError(
                f"{self._path}: was begun with another {', '.join(other)}. Give the same again to "
                "go on with it, or another --out."
            )


def _whole_lines(path: pathlib.Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def _line(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, sort_keys=True, allow_nan=False).encode() + b"\n"
