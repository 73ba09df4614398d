"""The store of a device between starts: key, state, downloads, and the current upload.

A directory that only its owner can read (0700, files 0600). Each change is one atomic write, so
after a kill at any moment the next start can continue:

    key.pem          Ed25519, generated at the first start; the server knows a device only by it
    state.json       `DeviceState`
    cache.db         the client cache (`cache.py`)
    blobs/SHA256     plan, graph, weights, after their hash was checked; SHA256.part during download
    upload           body of the upload, after training. In a secure sum it has no masks until it is
                     sent. It is sent again, byte for byte, until the server answers
"""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard.storage import directories, exclusive_file, files, names, typed_json
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.wire import keys, messages
from tff_keyboard_fleet.wire.plan import Cache, Plan

MAX_ROUND = 1_000_000  # largest number of a round in which a device takes part
ROUNDS_AHEAD = 1_000  # rounds that may have passed in less than a minute each


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedTask:
    """A seat in a round, and its progress.

    Attributes:
      round: Number of the round.
      plan: SHA-256 of the plan.
      model: SHA-256 of the weights.
      assignment: Identifier of the seat.
      upload_before: End of the round, in seconds since 1970.
      used: Ids of the examples that were trained on; None before training.
      sent: Whether the server may have the upload.
      secure_sum: Label of the round's secure sum; None if it has none.
      weight: Weight of the `UploadHeader`, after training.
      loss: Loss of the `UploadHeader`, after training.
    """

    round: int
    plan: str
    model: str
    assignment: str
    upload_before: float
    used: list[int] | None = None
    sent: bool = False
    secure_sum: str | None = None
    weight: float = 0.0
    loss: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceState:
    """The state from which the next start continues.

    Attributes:
      token: Newest participation token.
      took_part_at: Time when the last upload was accepted, in seconds since 1970.
      not_before: Time when the server may be asked again, in seconds since 1970.
      task: The current seat.
      model: SHA-256 of the newest weights that it trained from.
      cache: Limits of the cache by the newest plan.
      first_rounds: For each `Plan.record`, the first round in which the device may take part again.
        It never becomes smaller, whatever a server says or forgets.
      population: The population to which the device belongs: of its owner's choice, or of its first
        seat. It takes part in no other, so a server that uses another name does not get around
        `first_rounds`. None before the first seat.
      evaluation_token: Newest token of a server that evaluates.
      words_token: Newest token of a server that looks for new words.
    """

    token: str | None = None
    took_part_at: float | None = None
    not_before: float = 0.0
    task: SavedTask | None = None
    model: str | None = None
    cache: Cache | None = None
    first_rounds: dict[str, int] = dataclasses.field(default_factory=dict)
    population: str | None = None
    evaluation_token: str | None = None
    words_token: str | None = None


class DeviceStore:
    """The directory, locked by one process at a time.

    Raises:
      ProgramError: If another process uses it, it cannot be written, or a file is damaged.
    """

    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        files.make_directory(directory, mode=directories.PRIVATE)
        files.make_directory(directory / "blobs", mode=directories.PRIVATE, is_part=True)
        directory.chmod(directories.PRIVATE)
        self._held = contextlib.ExitStack()
        self._held.enter_context(
            exclusive_file.held(
                directory / names.LOCK,
                cannot=lambda why: ProgramError(f"{directory}: cannot be used ({why})."),
                taken=ProgramError(
                    f"{directory}: another device process is using it. Stop that process first."
                ),
            )
        )
        self.cache = directory / "cache.db"
        self.upload = directory / "upload"
        self._state_file = directory / "state.json"
        self.state = self._read()

    def close(self) -> None:
        """Unlocks the directory."""
        self._held.close()

    def key(self) -> Ed25519PrivateKey:
        """Returns the device's key, which is generated at first use."""
        return keys.open_key(self.directory / "key.pem")

    @property
    def limits(self) -> Cache:
        """Limits of the cache: of the newest plan, or the defaults of plans."""
        return self.state.cache or Cache()

    def save(self, state: DeviceState) -> None:
        """Saves the state. It is on disk when the method returns."""
        data = json.dumps(typed_json.plain(state)).encode()
        files.write_atomically(self._state_file, [data], mode=files.OWNER_ONLY)
        self.state = state

    def change(self, **fields: object) -> None:
        """Saves the state with some fields changed."""
        self.save(dataclasses.replace(self.state, **fields))  # type: ignore[arg-type]

    def first_round(self, record: str) -> int:
        """Returns the first round of a `Plan.record` in which the device may take part."""
        return self.state.first_rounds.get(record, 1)

    @property
    def population(self) -> str | None:
        """The population to which the device belongs; None if it has taken part in none.

        A device of an earlier version belongs to the population of its only record.
        """
        if self.state.population is None and len(self.state.first_rounds) == 1:
            return next(iter(self.state.first_rounds))
        return self.state.population

    def last_round(self, record: str, now: float) -> int:
        """Returns the last round of a `Plan.record` in which the device takes part at time `now`.

        A false round number, with which a server could lock the device out of all earlier rounds,
        is thus refused. A population has at most one round a minute, with some slack. Before the
        first part of the device, only `MAX_ROUND` bounds the round.
        """
        since = self.state.took_part_at
        if since is None or record not in self.state.first_rounds:
            return MAX_ROUND
        minutes = int(max(now - since, 0.0) // 60)
        return min(self.first_round(record) + ROUNDS_AHEAD + minutes, MAX_ROUND)

    def about_to_send(self, plan: Plan, masked: bytes | None = None) -> None:
        """Notes that the server may have the upload, which counts as taking part in the round.

        Replaces the upload by `masked` first, if given.
        """
        task = self.state.task
        assert task is not None
        if masked is not None:
            files.write_atomically(self.upload, [masked], mode=files.OWNER_ONLY)
        following = task.round + plan.min_separation_rounds
        first_round = max(following, self.first_round(plan.record))
        self.change(
            task=dataclasses.replace(task, sent=True),
            first_rounds=self.state.first_rounds | {plan.record: first_round},
        )

    def blob(self, digest: str) -> pathlib.Path:
        """Returns the path of the blob with this SHA-256, which may not exist yet.

        Raises:
          ProgramError: If `digest` is not a SHA-256.
        """
        if not messages.is_sha256(digest):
            raise ProgramError(
                f"{self.directory}: the name of a blob must be its SHA-256, 64 hex digits."
            )
        return self.directory / "blobs" / digest

    def part(self, digest: str, since: str | None = None) -> pathlib.Path:
        """Returns the path of a blob during its download, or of its delta from the blob `since`."""
        older = f"-{self.blob(since).name}" if since else ""
        return self.blob(digest).with_name(f"{digest}{older}.part")

    def take(self, digest: str) -> bool:
        """Makes a complete part a blob. If its hash is wrong, removes it and returns False."""
        part = self.part(digest)
        is_right = hashlib.sha256(files.read_bytes(part)).hexdigest() == digest
        if is_right:
            part.replace(self.blob(digest))
        else:
            part.unlink()
        return is_right

    def read_blob(self, digest: str) -> bytes:
        """Returns the bytes of a blob after checking their hash.

        Raises:
          ProgramError: If they changed. The blob is removed.
        """
        data = files.read_bytes(self.blob(digest))
        if hashlib.sha256(data).hexdigest() != digest:
            self.blob(digest).unlink()
            raise ProgramError(f"{self.blob(digest)}: is damaged. It will be downloaded again.")
        return data

    def keep_only(self, digests: Iterable[str]) -> None:
        """Removes all other blobs and parts, and the upload. Files with other names stay."""
        kept_digests = set(digests)
        for path in (self.directory / "blobs").iterdir():
            blob = path.name.removesuffix(".part")
            if blob not in kept_digests and all(map(messages.is_sha256, blob.split("-"))):
                path.unlink()
        self.upload.unlink(missing_ok=True)

    def _read(self) -> DeviceState:
        if not self._state_file.exists():
            return DeviceState()
        try:
            state: DeviceState = typed_json.read(
                DeviceState, files.read_json(self._state_file), "state"
            )
        except ValueError as error:
            raise files.damaged(self._state_file, str(error)) from None
        return state
