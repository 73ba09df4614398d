"""Rounds of which only a sum is used: an evaluation on devices, or a search for new words.

    group g opens   devices check in
    sums            each device sends a bounded vector, masked with `devices.secure_sums`
    noise           if configured, the server adds it to the sum of the group; the ledger's line and
                    the result of the group are on disk
    released        the uploads are deleted, and group g + 1 opens

A device is in one group at most. Rounds, seats, secure sums and their durability are those of a
training: after a kill, the same group has the same sum and the same noise. This module needs no
TFF.
"""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.host import progress
from tff_keyboard.privacy.ledger.ledger import RUN_ID, PrivacyLedger, contents, read_ledger
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, LedgerHeader
from tff_keyboard.privacy.mechanisms import noise_content, noise_key
from tff_keyboard.privacy.mechanisms.noise_streams import NoiseOfRounds
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.storage import exclusive_file, files, in_progress, json_text, names
from tff_keyboard.storage.errors import ProgramError, RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard_fleet.on_devices import served_config
from tff_keyboard_fleet.on_devices.served_files import SERVER_KEY
from tff_keyboard_fleet.round_server.app import Population, RoundApplication, delta_of
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import Round, RoundSettings
from tff_keyboard_fleet.round_server.secure_rounds import SecureRoundStore
from tff_keyboard_fleet.wire import keys, secure_steps
from tff_keyboard_fleet.wire.plan import Plan
from tff_keyboard_fleet.wire.secure_sums.grid import from_grid

GROUPS = names.GROUPS_OF_DEVICES  # results of each group, with noise if configured

Serve = Callable[[RoundApplication], contextlib.AbstractContextManager[None]]
Facts = Mapping[str, Any]  # a result as JSON


@dataclasses.dataclass(frozen=True, kw_only=True)
class SumSettings:
    """Settings that all such rounds have.

    Attributes:
      groups: Largest number of groups, and the minimum separation of a device's rounds. The report
        goal of a group is `train.clients_per_round`.
      first_round: Number of the first group's round, above those of earlier rounds of the same kind
        in the population.
      noise_multiplier: Standard deviation of the noise in a group's sum, divided by the bound on
        the L2 norm of a device's vector; 0: no noise, and no ledger.
      delta: Delta of the guarantee.
      noise_secret: As `aggregation.privacy.noise_secret`.
    """

    groups: int
    first_round: int = 1
    noise_multiplier: float = 0.0
    delta: float = 1e-6
    noise_secret: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Vectors:
    """Facts about the vectors of devices.

    Attributes:
      clip_norm: Bound on the L2 norm of a vector, whose numbers are in [0, 1].
      step: Step of the grid of a secure sum.
      aggregator: `LedgerHeader.aggregator`.
      result_of: Returns the result of a group, given its sum with noise. It is written to disk.
      is_sound: Whether a result from disk is one.
    """

    clip_norm: float
    step: float
    aggregator: str
    result_of: Callable[[np.ndarray], Facts]
    is_sound: Callable[[Facts], bool]


@contextlib.contextmanager
def held_folder(workdir: pathlib.Path, settings_name: str, what: str) -> Iterator[RunDirectory]:
    """Creates and locks the folder of such rounds. `what` is "an evaluation", for example.

    Checks, before anything is written, that it is new, or one with these settings. The ledger of
    sums in the directory of a training would be taken for that of the model.

    Raises:
      RunDirectoryError: If it is another folder.
      ProgramError: If another process uses it.
    """
    if workdir.is_dir():
        before_settings = {names.LOCK, names.ROUND_SERVER, names.NOISE_NONCE}
        file_names = {
            path.name for path in workdir.iterdir() if not in_progress.is_leftover_name(path.name)
        } - before_settings
        is_ours = settings_name in file_names and not file_names & {names.CONFIG, names.MODEL}
        if file_names and not is_ours:
            raise RunDirectoryError(
                f"{workdir}: is not the folder of {what}. Pass a new folder as --workdir."
            )
    files.make_directory(workdir)
    taken = ProgramError(f"{workdir}: another process uses it. Stop that process first.")
    with exclusive_file.held(
        workdir / names.LOCK,
        cannot=lambda why: ProgramError(f"{workdir}: cannot be used ({why})."),
        taken=taken,
    ):
        yield RunDirectory(workdir)


def open_settings(path: pathlib.Path, recorded: Facts) -> str:
    """Writes the settings and a random id at the first start, and compares the settings later.

    Returns the id, which is also in the ledger (`ledger.check_is_of_run`).
    """
    if not path.exists():
        run_id = secrets.token_hex(16)
        content = json.dumps({RUN_ID: run_id, **recorded}, indent=1)
        files.write_atomically(path, [content.encode()])
        return run_id
    on_disk = files.read_json(path)
    if not isinstance(on_disk, dict):
        raise files.damaged(path, "it is not an object")
    changed = [name for name in recorded if on_disk.get(name) != recorded[name]]
    if changed:
        raise RunDirectoryError(
            f"{path}: was started with another value of {', '.join(changed)}. Use the models, the "
            "config and the flags of the first start, or a new folder."
        )
    id_on_disk = on_disk.get(RUN_ID)
    if not isinstance(id_on_disk, str) or not id_on_disk:
        raise files.damaged(path, "it has no id")
    return id_on_disk


class SummedRounds:
    """The groups of an evaluation or a search, each with its result on disk.

    Args:
      config: The config of the devices' rounds.
      run: The folder.
      plan: The plan of the first group. Later plans differ at most in `plan.new_words.prefixes`.
      settings: The settings.
      vectors: Facts about the vectors.
      recorded: The settings as they are on disk.
      run_id: The id of the settings.
      blobs: The files for devices.
      clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        config: RunConfig,
        run: RunDirectory,
        plan: Plan,
        settings: SumSettings,
        vectors: Vectors,
        *,
        recorded: Facts,
        run_id: str,
        blobs: Blobs,
        clock: Callable[[], float],
    ):
        self._path, self._settings, self._vectors = run.path / GROUPS, settings, vectors
        self._size, self._blobs = plan.upload_size, blobs
        round_settings = _round_settings(config, plan, settings)
        store_class = SecureRoundStore if round_settings.sums else RoundStore
        self._store = store_class(run.round_server, round_settings, clock)
        try:
            self.app = RoundApplication(
                self._store,
                blobs,
                Population(
                    name=plan.population,
                    run=self._store.run_id,
                    parameters=self._size,
                    codec=plan.codec.name,
                ),
                keys.open_key(run.round_server / SERVER_KEY),
                clock,
            )
            self._lines = _read_groups(self._path, vectors.is_sound)
            self._ledger: PrivacyLedger | None = None
            self._tags: list[str] = []
            self._tag_key = b""
            if settings.noise_multiplier:
                self._open_noise(run, plan, config, recorded, run_id)
        except BaseException:
            self._store.close()
            raise

    def close(self) -> None:
        """Closes the store of rounds."""
        self._store.close()

    @property
    def results(self) -> list[dict[str, Any]]:
        """The result of each complete group, with `round` and `devices`."""
        return self._lines

    @property
    def number(self) -> int:
        """Number of complete groups."""
        return len(self._lines)

    def restart(self) -> None:
        """Continues after the last complete group."""
        if self._ledger is not None:
            self._ledger.restart_after(self.number)
        self._store.restart_after(self._settings.first_round - 1 + self.number)

    def publish(self, plan: Plan) -> str:
        """Lets devices fetch a plan, and returns its name."""
        name = self._blobs.keep(plan.to_bytes())
        self._blobs.show(name)
        return name

    def next(self, model: str, plan: Plan) -> None:
        """Opens the next group, waits for its devices, and writes its result."""
        plan_name = self.publish(plan)
        round_num = self._settings.first_round + self.number
        self._store.open_round(round_num, model, plan_name)
        round_ = self._store.wait_for_uploads(round_num)
        if round_ is None:
            raise ProgramError("The round server was stopped.")
        result = self._vectors.result_of(self._noised(self._sum(round_)))
        line = {"round": round_num, "devices": round_.accepted, **result}
        files.append(self._path, json.dumps(line).encode() + b"\n", mode=files.OWNER_ONLY)
        self._lines.append(line)
        self._store.release(round_num)
        progress.step(f"group {self.number} of {self._settings.groups}: {round_.accepted} devices")

    def _sum(self, round_: Round) -> np.ndarray:
        """Returns the sum of the vectors of a group, [size] float64."""
        if isinstance(self._store, SecureRoundStore):
            return from_grid(self._store.total(round_), step=self._vectors.step)
        total = np.zeros(self._size)
        for upload in self._store.uploads(round_.number, round_.attempt):
            # A device without masks cannot exceed its bound.
            total += np.clip(delta_of(upload, self._size), 0.0, 1.0).astype(np.float64)
        return total

    def _noised(self, total: np.ndarray) -> np.ndarray:
        """Returns the sum of a group with its noise, after the ledger has recorded its cost."""
        if self._ledger is None:
            return total
        digest = hashlib.sha256(np.ascontiguousarray(total).tobytes()).digest()
        tags = [*self._tags[: self.number]]
        tags.append(noise_content.next_tag(self._tag_key, tags, digest))
        self._ledger.record(self.number + 1, content=tags[-1])
        self._tags = tags
        stddev = self._settings.noise_multiplier * self._vectors.clip_norm
        return total + stddev * self._noise(self.number, tags)

    def _open_noise(
        self, run: RunDirectory, plan: Plan, config: RunConfig, recorded: Facts, run_id: str
    ) -> None:
        """Opens the noise key and the ledger. Rounds that go on must have their ledger."""
        path, settings = run.privacy_ledger, self._settings
        if path.exists():
            self._tags = list(contents(read_ledger(path)[1]))
        elif self.number:
            raise RunDirectoryError(
                f"{path} is missing, but groups were released with noise. Restore the file, or "
                "start a new folder."
            )
        mechanism = Gaussian()
        noise = noise_key.open_noise_key(
            run.noise_nonce,
            {"plan": json_text.parse(plan.to_bytes()), "settings": dict(recorded)},
            may_draw=not path.exists(),
            secret=settings.noise_secret,
        )
        self._tag_key = noise.tag_key
        self._noise: NoiseOfRounds = mechanism.keyed_noise(noise.key)(self._size)
        header = LedgerHeader(
            mechanism=mechanism,
            aggregator=self._vectors.aggregator,
            noise_multiplier=settings.noise_multiplier,
            clip_norm=self._vectors.clip_norm,
            delta=settings.delta,
            population=0,
            clients_per_round=config.train.clients_per_round,
            selected_per_round=config.train.selected_per_round,
            sampling=CHECK_IN,
            uniform_sampling=False,
            secret_cohorts=True,
            min_separation_rounds=plan.min_separation_rounds,
            noise_source=noise.source,
            key_id=noise.key_id,
            run_id=run_id,
            secure_sums=plan.secure_sums is not None,
        )
        self._ledger = PrivacyLedger(path, header)


def _round_settings(config: RunConfig, plan: Plan, settings: SumSettings) -> RoundSettings:
    sums = plan.secure_sums
    return RoundSettings(
        goal=config.train.clients_per_round,
        max_seats=config.train.selected_per_round,
        min_reports=served_config.min_reports_of(config),
        deadline_seconds=config.devices.deadline_seconds,
        separation=settings.groups,
        sums=secure_steps.settings(sums, plan.upload_size) if sums else None,
    )


def _read_groups(path: pathlib.Path, is_sound: Callable[[Facts], bool]) -> list[dict[str, Any]]:
    """Returns the lines of the file. Cuts off a line that a crash left incomplete."""
    if not path.exists():
        return []
    data = files.read_bytes(path)
    complete = data[: data.rfind(b"\n") + 1]
    lines = []
    for number, text in enumerate(complete.splitlines(), 1):
        try:
            line = json_text.parse(text)
            is_line = isinstance(line, dict) and is_sound(line)
        except (ValueError, KeyError, TypeError, AttributeError):
            is_line = False
        if not is_line:
            raise RunDirectoryError(
                f"{path}, line {number}: is damaged. Restore the file from a copy, or start a new "
                "folder."
            )
        lines.append(line)
    if complete != data:
        files.write_atomically(path, [complete], mode=files.OWNER_ONLY)
    return lines
