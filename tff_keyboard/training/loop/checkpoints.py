"""Program states on disk: atomic, with checksums, limited in number.

A checkpoint is one file, `round_00000012.checkpoint`:

    line 1   magic: name and version of the format
    line 2   sha256, hex, of all following bytes
    line 3   JSON: {"version": 12, "run_id": "...", "leaves": [{"name", "dtype", "shape"}, ...]};
             without a run id in earlier versions
    then     the leaves' bytes, in that order, row-major, little-endian
"""

import hashlib
import json
import os
import pathlib
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow_federated as tff
import tree

from tff_keyboard.storage import errors, files, in_progress, json_text, names

_MAGIC = b"tff-keyboard checkpoint 1\n"
_NUMERIC_KINDS = "biufc"
# Such as names in a privacy event. Their lengths can change from round to round.
_BYTES_KIND = "S"


class DamagedCheckpointError(errors.RunDirectoryError):
    """An error of a file that is cut short, altered, or no checkpoint."""


class CheckpointManager(tff.program.ProgramStateManager):
    """Keeps the last `keep_last` >= 1 states of a directory, and pinned ones.

    It has TFF's `ProgramStateManager` interface: versions are round numbers, and methods are
    coroutines (none of them waits). The leaves of a state are arrays, scalars or tensors of
    booleans, numbers or bytes, in any nest of tuples, lists, dicts, named tuples and attrs classes.

    `run_id` identifies the run. A checkpoint of another run is refused: its rounds would have the
    noise of this run's rounds with other sums. "" accepts every checkpoint.
    """

    def __init__(self, directory: str | os.PathLike[str], keep_last: int = 3, run_id: str = ""):
        if keep_last < 1:
            raise ValueError(f"`keep_last` must be >= 1 checkpoints, got {keep_last}.")
        self._directory = pathlib.Path(directory)
        self._keep_last = keep_last
        self._run_id = run_id
        self._pinned: frozenset[int] = frozenset()
        self._replaceable: set[int] = set()  # damaged, or computed again later
        files.make_directory(self._directory, is_part=True)
        in_progress.remove_all_leftovers(self._directory)

    def pin(self, *versions: int) -> None:
        """Keeps these versions, besides the last ones, at the next `save`. Not stored on disk."""
        self._pinned = frozenset(versions)

    def path(self, version: int) -> pathlib.Path:
        """Returns the file of a version."""
        return self._directory / names.checkpoint(version)

    async def get_versions(self) -> list[int] | None:
        """Returns the sorted versions on disk, with damaged ones; None if there are none."""
        return self._versions() or None

    async def save(self, program_state: Any, version: int) -> None:
        """Writes a state, then removes states that are neither recent nor pinned.

        Raises:
          ProgramStateExistsError: `version` exists and must not be replaced.
          ProgramError: The disk is full or read-only. Earlier states do not change.
        """
        path = self.path(version)
        if path.exists() and version not in self._replaceable:
            raise tff.program.ProgramStateExistsError(version=version, path=os.fspath(path))
        content = _encode(program_state, version, self._run_id)
        files.write_atomically(path, content, mode=files.OWNER_ONLY)
        self._replaceable.discard(version)
        self._prune()

    async def load(self, version: int, structure: Any) -> Any:
        """Reads a state, with the containers of `structure` and NumPy arrays as leaves.

        Raises:
          ProgramStateNotFoundError: There is no such version.
          ProgramError: The file is sound, but names, dtypes or shapes differ, or it is of another
            run.
        """
        path = self.path(version)
        try:
            content = files.content(path, max_bytes=_max_bytes(structure))
        except FileNotFoundError:
            raise tff.program.ProgramStateNotFoundError(version) from None
        except OSError as error:
            raise errors.RunDirectoryError(f"Cannot read {path}: {error.strerror}.") from error
        return _decode(content, path, version, structure, self._run_id)

    async def load_latest(self, structure: Any, up_to: int | None = None) -> tuple[Any, int]:
        """Reads the newest sound state and its version, or `(None, 0)` if no state was ever saved.

        It skips a damaged file with a warning of one line. It also skips states of rounds after
        `up_to`, with a warning of one line, because other records of these rounds are lost; `save`
        may then replace these states.

        Raises:
          ProgramError: There are checkpoints, but all are damaged, or the newest sound one does not
            fit `structure`.
        """
        versions = self._versions()
        if up_to is not None and versions and versions[-1] > up_to:
            warnings.warn(
                f"{self._directory} has round {versions[-1]}, but the metrics of round {up_to + 1} "
                "are missing or damaged. Training resumes from there.",
                stacklevel=2,
            )
            self._replaceable.update(version for version in versions if version > up_to)
            versions = [version for version in versions if version <= up_to]
        for version in reversed(versions):
            try:
                return await self.load(version, structure), version
            except DamagedCheckpointError as error:
                self._replaceable.add(version)
                warnings.warn(f"{error} Using the previous checkpoint.", stacklevel=2)
        if versions:
            raise errors.RunDirectoryError(
                f"None of the {len(versions)} checkpoints in {self._directory} can be read. To "
                "train again from the first round, remove that directory."
            )
        return None, 0

    def _versions(self) -> list[int]:
        rounds = [names.round_of_checkpoint(path.name) for path in self._directory.iterdir()]
        return sorted(number for number in rounds if number is not None)

    def _prune(self) -> None:
        """Deletes all checkpoints but the last ones and the pinned ones."""
        sound = [version for version in self._versions() if version not in self._replaceable]
        for version in sound[: -self._keep_last]:
            if version not in self._pinned:
                try:
                    self.path(version).unlink()
                except OSError as error:
                    raise files.cannot_write(self.path(version), error) from error


def _leaves(structure: Any) -> list[tuple[str, np.ndarray]]:
    """Returns names and values of the leaves, in the order of `tree.flatten`."""
    leaves = []
    for path, value in tree.flatten_with_path(structure):
        name = "/".join(map(str, path))
        array = np.asarray(value)
        if array.dtype.kind == "O" and all(isinstance(item, bytes) for item in array.flat):
            array = array.astype(np.bytes_)  # a string tensor
        if array.dtype.kind not in _NUMERIC_KINDS + _BYTES_KIND:
            raise errors.ProgramError(
                f"State `{name}` has dtype {array.dtype}; a checkpoint can store only numbers and "
                "bytes."
            )
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        leaves.append((name, array))
    return leaves


def _max_bytes(structure: Any) -> int:
    """Returns the size of a file that is far too large for a state like `structure`."""
    return files.MAX_BYTES + 2 * sum(array.nbytes for _, array in _leaves(structure))


def _specification(name: str, array: np.ndarray) -> dict[str, Any]:
    return {"name": name, "dtype": array.dtype.str, "shape": list(array.shape)}


def _encode(structure: Any, version: int, run_id: str) -> Iterable[bytes | memoryview]:
    """Returns the content of a checkpoint: checksum, header, and the bytes of all leaves."""
    leaves = _leaves(structure)
    specifications = [_specification(name, array) for name, array in leaves]
    facts = {"version": version} | ({"run_id": run_id} if run_id else {})
    header = json.dumps({**facts, "leaves": specifications}).encode() + b"\n"
    payload = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for _, array in leaves]
    checksum = hashlib.sha256(header)
    for chunk in payload:
        checksum.update(chunk)
    return [_MAGIC, checksum.hexdigest().encode() + b"\n", header, *payload]


def _decode(content: bytes, path: pathlib.Path, version: int, template: Any, run_id: str) -> Any:
    """Returns the program state in a checkpoint, with the structure of `template`.

    Raises `DamagedCheckpointError` if the content is damaged, and `RunDirectoryError` if it belongs
    to another run or model.
    """
    damaged = DamagedCheckpointError(f"Checkpoint {path} is damaged.")
    magic_end = len(_MAGIC)
    body_start = magic_end + 65  # 64 hex digits and a line feed
    body = memoryview(content)[body_start:]
    checksum = content[magic_end : body_start - 1]
    if content[:magic_end] != _MAGIC or hashlib.sha256(body).hexdigest().encode() != checksum:
        raise damaged
    header_end = content.index(b"\n", body_start) + 1
    try:
        header = json_text.parse(content[body_start:header_end])
    except json_text.InvalidJsonError:
        raise damaged from None
    if header["version"] != version:  # the file was renamed
        raise damaged
    if run_id and header.get("run_id", run_id) != run_id:
        raise errors.RunDirectoryError(
            f"{path} is a checkpoint of another run. Restore the checkpoints of this run, or train "
            "in another directory."
        )
    expected = [_specification(name, array) for name, array in _leaves(template)]
    _check_specifications(header["leaves"], expected, path)
    leaves, offset = [], header_end
    for leaf in header["leaves"]:
        dtype = np.dtype(leaf["dtype"])
        count = int(np.prod(leaf["shape"], dtype=np.int64))
        array = np.frombuffer(content, dtype, count, offset).reshape(leaf["shape"])
        leaves.append(array.copy() if array.ndim else array[()])
        offset += count * dtype.itemsize
    return tree.unflatten_as(template, leaves)


def _any_bytes(leaf: dict) -> dict[str, Any]:
    """Returns the type of byte strings of any length and number; {} for other leaves."""
    is_bytes = np.dtype(leaf["dtype"]).kind == _BYTES_KIND
    return {"dtype": _BYTES_KIND, "shape": len(leaf["shape"])} if is_bytes else {}


def _check_specifications(
    specifications: list[dict], expected: list[dict], path: pathlib.Path
) -> None:
    """Raises `RunDirectoryError` unless the stored leaves have the expected names and types."""
    if specifications == expected:
        return
    # Length and number of byte strings are part of the value.
    specifications = [{**leaf, **_any_bytes(leaf)} for leaf in specifications]
    expected = [{**leaf, **_any_bytes(leaf)} for leaf in expected]
    if specifications == expected:
        return
    stored_by_name = {leaf["name"]: leaf for leaf in specifications}
    for leaf in expected:
        stored = stored_by_name.pop(leaf["name"], None)
        if stored != leaf:
            actual = "not there" if stored is None else f"{stored['dtype']}{stored['shape']}"
            problem = f"`{leaf['name']}` is {actual}, expected {leaf['dtype']}{leaf['shape']}"
            break
    else:
        problem = (
            f"it has {next(iter(stored_by_name), 'another order')!r} that the other does not have"
        )
    raise errors.RunDirectoryError(
        f"Checkpoint {path} does not fit this model and algorithm: {problem}. Use another run "
        "directory, or the code and config that wrote it."
    )
