"""What a device keeps between starts: key, state, downloads, the upload that is under way.

A directory for the owner alone (0700, files 0600). Each change is one atomic write, so a kill at
any moment leaves a state that the next start goes on from:

    key.pem          Ed25519, made at first start; all that the server knows a device by
    state.json       `DeviceState`
    cache.db         the client cache (`cache.py`)
    blobs/SHA256     plan, graph, weights, once their hash was checked; SHA256.part while they come
    upload           body of the upload, once trained; in a secure sum without masks, until it is
                     sent. Sent again, byte for byte, until it is answered
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
from tff_keyboard.wire import keys, messages
from tff_keyboard.wire.plan import Cache


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedTask:
    """A seat in a round, and how far it is.

    Attributes:
      plan: SHA-256, as `model`.
      upload_before: Seconds since 1970.
      used: Ids of the examples that were trained on; None: not trained yet.
      sent: Whether the server may have the upload.
      secure_sum: Label of the round's secure sum; None: it has none.
      weight: That of `UploadHeader`, once trained; likewise `loss`.
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
    """What the next start goes on from.

    Attributes:
      token: Newest participation token.
      took_part_at: When the last upload was accepted; seconds since 1970, as `not_before`.
      not_before: When the server may be asked again.
      task: The seat that is held.
      model: SHA-256 of the newest weights that it trained from.
      cache: How long the newest plan lets it keep text.
    """

    token: str | None = None
    took_part_at: float | None = None
    not_before: float = 0.0
    task: SavedTask | None = None
    model: str | None = None
    cache: Cache | None = None


class DeviceStore:
    """The directory, held by one process at a time.

    Raises:
      ProgramError: Another process holds it, or it cannot be written; a damaged file is named.
    """

    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        files.make_directory(directory, mode=directories.PRIVATE)
        files.make_directory(directory / "blobs", mode=directories.PRIVATE)
        directory.chmod(directories.PRIVATE)
        self._held = contextlib.ExitStack()
        self._held.enter_context(
            exclusive_file.held(
                directory / names.LOCK,
                cannot=lambda why: ProgramError(f"{directory}: cannot be used ({why})."),
                taken=ProgramError(f"{directory}: another device process uses it. End that first."),
            )
        )
        self.cache = directory / "cache.db"
        self.upload = directory / "upload"
        self._state_file = directory / "state.json"
        self.state = self._read()

    def close(self) -> None:
        """Lets another process have it."""
        self._held.close()

    def key(self) -> Ed25519PrivateKey:
        """The device's key, made at first use."""
        return keys.open_key(self.directory / "key.pem")

    @property
    def limits(self) -> Cache:
        """How long text is kept: as the newest plan says, or as plans do that say nothing."""
        return self.state.cache or Cache()

    def save(self, state: DeviceState) -> None:
        """On disk when it returns."""
        data = json.dumps(typed_json.plain(state)).encode()
        files.write_atomically(self._state_file, [data], mode=files.OWNER_ONLY)
        self.state = state

    def change(self, **fields: object) -> None:
        """`save`, with some fields changed."""
        self.save(dataclasses.replace(self.state, **fields))  # type: ignore[arg-type]

    def about_to_send(self, masked: bytes | None = None) -> None:
        """Notes that the server may have the upload; in its place is first put what is masked."""
        assert self.state.task is not None
        if masked is not None:
            files.write_atomically(self.upload, [masked], mode=files.OWNER_ONLY)
        self.change(task=dataclasses.replace(self.state.task, sent=True))

    def blob(self, digest: str) -> pathlib.Path:
        """Where bytes of this SHA-256 lie, or will. Raises `ProgramError` if it is none."""
        if not messages.is_sha256(digest):
            raise ProgramError(f"{self.directory}: a blob is named by its SHA-256, 64 hex digits.")
        return self.directory / "blobs" / digest

    def part(self, digest: str, since: str | None = None) -> pathlib.Path:
        """Where they lie while they come, or what changed in them since those of `since`."""
        older = f"-{self.blob(since).name}" if since else ""
        return self.blob(digest).with_name(f"{digest}{older}.part")

    def take(self, digest: str) -> bool:
        """Makes a part that is complete a blob; False, and it is removed, if it is another."""
        part = self.part(digest)
        is_right = hashlib.sha256(files.read_bytes(part)).hexdigest() == digest
        if is_right:
            part.replace(self.blob(digest))
        else:
            part.unlink()
        return is_right

    def read_blob(self, digest: str) -> bytes:
        """The bytes of a blob, checked. Raises `ProgramError` if they changed; they are removed."""
        data = files.read_bytes(self.blob(digest))
        if hashlib.sha256(data).hexdigest() != digest:
            self.blob(digest).unlink()
            raise ProgramError(f"{self.blob(digest)}: was damaged. It will be fetched again.")
        return data

    def keep_only(self, digests: Iterable[str]) -> None:
        """Removes all other blobs and parts, and an upload that nobody waits for."""
        kept = set(digests)
        for path in (self.directory / "blobs").iterdir():
            if path.name.removesuffix(".part") not in kept:
                path.unlink()
        self.upload.unlink(missing_ok=True)

    def _read(self) -> DeviceState:
        if not self._state_file.exists():
            return DeviceState()
        try:
            found: DeviceState = typed_json.read(
                DeviceState, files.read_json(self._state_file), "state"
            )
        except ValueError as error:
            raise files.damaged(self._state_file, str(error)) from None
        return found
