"""A device's part in the rounds: check in, fetch, train, upload. It can resume after any kill.

    eligible? -> check in -> plan, graph, weights -> train -> upload -> delete the used text

Each arrow is stored durably before the next step. In a secure sum, the server waits for the keys of
all devices, so the device sends its keys before it trains. Progress messages are counts and sizes;
they contain no word of a text.

The clock of a device may be wrong for a while, for example after its battery was empty. A recorded
time that a right clock cannot have written is ignored: the end of a wait or of a seat more than
`MAX_SECONDS` ahead, or a last part in the future, which counts as now.
"""

import contextlib
import dataclasses
import functools
import pathlib
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tff_keyboard.host.progress import step
from tff_keyboard.storage.errors import ExportError, ProgramError, printable
from tff_keyboard_fleet.device import apply_patch, eligibility, training_process
from tff_keyboard_fleet.device.cache import ClientCache
from tff_keyboard_fleet.device.client import RoundClient
from tff_keyboard_fleet.device.store import DeviceStore, SavedTask
from tff_keyboard_fleet.device.training_process import Done, Job
from tff_keyboard_fleet.wire.messages import PROTOCOL, Accepted, CheckIn, Loss, Refused
from tff_keyboard_fleet.wire.plan import EVALUATION, MAX_SEPARATION, NEW_WORDS, TRAINING, Plan
from tff_keyboard_fleet.wire.secure_sums.errors import SecureSumError
from tff_keyboard_fleet.wire.secure_sums.neighbours import min_honest_in_sum

LATER_SECONDS = 3600.0  # until the next try, if the server names no time
AGAIN_SECONDS = 60.0  # after a temporary problem
MAX_SECONDS = 86_400.0  # of any wait
_SECONDS_A_DAY = 86_400.0
_TOKEN_FIELDS = {TRAINING: "token", EVALUATION: "evaluation_token", NEW_WORDS: "words_token"}

if TYPE_CHECKING:
    from tff_keyboard_fleet.device.masked_upload import MaskedUpload

Train = Callable[[Job, float], Done]


class Device:
    """A device with a store.

    Args:
      store: The store. The caller closes it.
      client: The connection to the server.
      facts: Returns the facts that the system reports about the device.
      library: `libcifg.so` to train with; None for LiteRT.
      known: Public keys of the devices with which it makes secure sums; None for any.
      min_devices_in_sum: The device follows a plan only if its secure sums have at least this
        number of honest devices, whatever the server does (`neighbours.min_honest_in_sum`, without
        colluding devices). With 1, it also follows plans without secure sums.
      train: Runs a `Job` within a number of seconds; by default in a child process.
      say: Receives progress messages, one sentence each.
      clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        store: DeviceStore,
        client: RoundClient,
        facts: Callable[[], eligibility.DeviceFacts],
        *,
        library: pathlib.Path | None = None,
        known: Collection[bytes] | None = None,
        min_devices_in_sum: int = 1,
        train: Train = training_process.run_in_child,
        say: Callable[[str], None] = step,
        clock: Callable[[], float] = time.time,
    ):
        self._store = store
        self._client = client
        self._facts = facts
        self._library = library
        self._known = known
        self._min_devices_in_sum = min_devices_in_sum
        self._train = train
        self._print = say
        self._clock = clock
        self._masked: MaskedUpload | None = None

    def run(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Takes part for ever, as often as the server and the plan's conditions allow.

        Temporary problems, such as an unreachable server or a full disk, are reported and tried
        again.
        """
        while True:
            try:
                wait = self.attempt()
            except ProgramError as error:
                self._say(str(error))
                wait = getattr(error, "retry_after_s", None) or AGAIN_SECONDS
            sleep(min(max(wait, 1.0), MAX_SECONDS))

    def once(self, *, sleep: Callable[[float], None] = time.sleep) -> float:
        """Repeats `attempt` until a secure sum is over, because its keys are only in memory."""
        wait = self.attempt()
        while self._masked is not None and self._store.state.task is not None:
            sleep(min(wait, MAX_SECONDS))
            wait = self.attempt()
        return wait

    def attempt(self) -> float:
        """Takes part once, if allowed, and returns the seconds until the next attempt makes sense.

        Raises:
          ServerUnavailable: If the server cannot be reached. The next attempt continues from the
            same step.
          ProgramError: If the server speaks another protocol, or the store cannot be written.
          DataError: If the cache cannot be used.
        """
        self._remove_old()
        state = self._store.state
        wait = self._seconds_until(state.not_before)
        if state.task is not None and not self._seconds_until(state.task.upload_before):
            self._masked = None  # it remains to ask whether the server has the upload
            if not state.task.sent:
                self._say(f"round {state.task.round} closed before this device finished")
                self._later(0.0)
        elif state.task is None and wait:
            return wait
        try:
            task = self._store.state.task or self._seat()
            return self._take_part(task) if task else self._store.state.not_before - self._clock()
        except Refused as error:
            return self._wait_after_refusal(error)
        except SecureSumError as error:
            self._say(f"not taking part in this sum: {error}")
            return self._later(LATER_SECONDS)
        except ExportError as error:
            # The plan or its graph cannot be used. Another round may have a better one.
            self._say(f"not taking part in this round: {error}")
            return self._later(LATER_SECONDS)

    def _seconds_until(self, recorded: float) -> float:
        """Returns the seconds until a recorded time; 0 if it is over, or cannot be right."""
        seconds = recorded - self._clock()
        return seconds if 0 < seconds <= MAX_SECONDS + 1 else 0.0  # 1 s for rounding

    def _seat(self) -> SavedTask | None:
        """Gets a new seat in a round and saves it; None if the device or the server waits."""
        try:
            return self._check_in()
        except Refused as error:
            if error.code != "wrong_plan":
                raise
        return self._check_in()  # a round opened since the plan was fetched

    def _check_in(self) -> SavedTask | None:
        """Offers to take part, if the plan's conditions are met. Returns the task of a seat.

        Returns None if the device is not eligible, gets no seat, or refuses the seat. It then
        waits.
        """
        plan_bytes = self._client.newest_plan()
        plan = self._plan(plan_bytes)
        now = self._clock()
        # Noted by a clock that was wrong. Only with an answer: without the right time there is no
        # connection over HTTPS, so a clock that is wrong now does not change the record.
        if (self._store.state.took_part_at or 0.0) > now:
            self._store.change(took_part_at=now)
        state = self._store.state
        if plan.cache != state.cache:
            self._store.change(cache=plan.cache)
        examples = self._remove_old(is_clock_right=True)
        since = state.took_part_at
        unmet = eligibility.unmet(
            plan.conditions,
            self._facts(),
            examples=examples,
            days_since=None if since is None else (now - since) / _SECONDS_A_DAY,
        )
        if unmet:
            self._say(f"not eligible: {', '.join(unmet)}")
            self._later(LATER_SECONDS)
            return None
        message = CheckIn(
            protocol=PROTOCOL,
            population=plan.population,
            plan=plan.sha256,
            token=getattr(state, _token_field(plan)),
        )
        try:
            answer = self._client.check_in(message)
        except Refused as error:
            if error.code != "forged_token" or message.token is None:
                raise
            # Another key signed it: that of an earlier evaluation, or of a server that lost its
            # own. The device's own record still holds.
            self._store.change(**{_token_field(plan): None})
            answer = self._client.check_in(dataclasses.replace(message, token=None))
        if answer.task is None:
            wait = answer.rejection.retry_after_s if answer.rejection else LATER_SECONDS
            self._say(f"no seat; trying again in {wait:.0f} s")
            self._later(wait)
            return None
        seat = answer.task
        if seat.plan != plan.sha256:  # its conditions were not checked
            self._say("the server assigned another plan than the one that this device accepted")
            self._later(LATER_SECONDS)
            return None
        last_round = self._store.last_round(plan.record, self._clock())
        if seat.round > last_round:
            self._say(
                f"round {seat.round} cannot be right: this device expects {last_round} or less"
            )
            self._later(LATER_SECONDS)
            return None
        seconds = min(max(seat.upload_before_s, 0), MAX_SECONDS)
        task = SavedTask(
            round=seat.round,
            plan=seat.plan,
            model=seat.model,
            assignment=seat.assignment,
            upload_before=self._clock() + seconds,
            secure_sum=seat.secure_sum,
        )
        # Otherwise the files of rounds that this device did not finish would fill its disk.
        files_of_round = [plan.sha256, plan.graph, seat.model]
        if plan.evaluation is not None:
            files_of_round += plan.evaluation.models
        newest = self._store.state.model
        self._store.keep_only([*files_of_round, *([newest] if newest else [])])
        self._store.change(task=task, population=plan.population)
        self._say(f"got a seat in round {task.round}; upload within {seconds:.0f} s")
        return task

    def _take_part(self, task: SavedTask) -> float:
        """Continues a task from its last step on disk. Returns the seconds to wait before the next.

        The steps: train, report the loss if the plan asks for it, and upload, masked in a secure
        sum.
        """
        self._fetch(task.plan, plan=True)
        plan = self._plan(self._store.read_blob(task.plan))
        if not task.sent and task.round < self._store.first_round(plan.record):
            # Its update would be in two releases that the server's statement counts once.
            self._say(f"round {task.round} is too soon after this device's last part")
            return self._later(task.upload_before - self._clock())
        if task.used is None or not self._store.upload.exists():
            if task.sent:  # a new training would give another upload, without masks
                self._say("the sent upload is missing")
                return self._later(LATER_SECONDS)
            if plan.secure_sums is not None:
                self._sum(task, plan).advertise()
            task = self._trained(task, plan)
        if "loss" in plan.phases and not task.sent:
            message = Loss(assignment=task.assignment, weight=task.weight, loss=task.loss)
            verdict = self._client.loss(task.round, message)
            if verdict.upload == "wait":
                return float(verdict.retry_after_s)
            if verdict.upload != "yes":
                self._say(f"round {task.round} does not need this upload")
                return self._later(verdict.retry_after_s or LATER_SECONDS)
        if plan.secure_sums is not None and (self._masked or not task.sent):
            return self._continue_sum(task, plan)
        if not task.sent:
            self._store.about_to_send(plan)
        accepted = self._client.upload(task.round, self._store.upload.read_bytes())
        self._accepted(task, plan, accepted)
        return self._end_task(task, plan)

    def _sum(self, task: SavedTask, plan: Plan) -> "MaskedUpload":
        """Returns its part in a secure sum, whose keys are only in memory.

        If the process ended since the last step, the device counts as dropped out. It then sends
        nothing but a masked upload that it had already sent.
        """
        from tff_keyboard_fleet.device.masked_upload import MaskedUpload  # NumPy

        if self._masked is None:
            self._masked = MaskedUpload(
                self._client,
                self._store.key(),
                task,
                plan,
                self._store.upload.read_bytes,
                functools.partial(self._store.about_to_send, plan),
                self._known,
            )
        return self._masked

    def _continue_sum(self, task: SavedTask, plan: Plan) -> float:
        """Continues a secure sum. Returns the seconds to wait before its next step."""
        masked = self._sum(task, plan)
        try:
            wait = masked.go_on()
        finally:  # an accepted upload counts, even if the sum fails later
            token = getattr(self._store.state, _token_field(plan))
            if masked.accepted is not None and masked.accepted.token != token:
                self._accepted(task, plan, masked.accepted)
        if wait is not None:
            return wait
        self._masked = None
        return self._end_task(task, plan)

    def _accepted(self, task: SavedTask, plan: Plan, accepted: Accepted) -> None:
        """Deletes the text of an accepted upload, and keeps the server's token."""
        with self._cache() as cache:
            cache.delete(task.used or [])
        self._say(f"round {task.round}: upload {accepted.accepted} accepted, its text deleted")
        self._store.change(**{_token_field(plan): accepted.token}, took_part_at=self._clock())

    def _end_task(self, task: SavedTask, plan: Plan) -> float:
        """Ends a task, and removes its files. Returns the seconds to wait."""
        newest = self._store.state.model if plan.new_words is not None else task.model
        self._store.change(task=None, model=newest)
        self._store.keep_only([plan.graph, *([newest] if newest else [])])
        return 0.0

    def _trained(self, task: SavedTask, plan: Plan) -> SavedTask:
        """Trains, evaluates or counts words on the text. Returns the task with its figures.

        The upload is on disk after it. Raises `Refused` if the round closes before.
        """
        models = _models(task, plan)
        for digest in models:
            self._fetch_change(digest)
        for digest in (plan.graph, *models):
            self._fetch(digest)
            self._store.read_blob(digest)
        with self._cache() as cache:
            examples = cache.newest(plan.max_messages if plan.kind == TRAINING else 0)
        job = Job(
            plan=str(self._store.blob(task.plan)),
            graph=str(self._store.blob(plan.graph)),
            model=str(self._store.blob(task.model)),
            upload=str(self._store.upload),
            assignment=task.assignment,
            texts=[text for _, text in examples],
            library=str(self._library) if self._library else None,
            models=[str(self._store.blob(digest)) for digest in models[1:]],
        )
        started, seconds = time.monotonic(), task.upload_before - self._clock()
        if seconds <= 0:
            raise Refused("late", "the round closed before training began", 1)
        result = self._train(job, seconds)
        duration = f"{time.monotonic() - started:.1f} s"
        if plan.kind == TRAINING:
            self._say(
                f"trained {result.steps} steps in {duration}, loss {result.loss:.3f}; upload of "
                f"{result.upload_bytes / 1e6:.2f} MB"
            )
        else:
            work = f"evaluated {len(models)} models" if models else "looked for new words"
            self._say(
                f"{work} on {result.steps} messages in {duration}; upload of "
                f"{result.upload_bytes} bytes"
            )
        # An evaluation and a count use the newest messages. Zeros use no text.
        num_used = result.steps
        if plan.kind == TRAINING:
            num_used = len(examples) if result.steps else 0
        used = [number for number, _ in examples[len(examples) - num_used :]]
        task = dataclasses.replace(task, used=used, weight=result.weight, loss=result.loss)
        self._store.change(task=task)
        return task

    def _remove_old(self, *, is_clock_right: bool = False) -> int:
        """Deletes text that is older than the newest plan allows, even if no server answers.

        Args:
          is_clock_right: Whether a server has just answered; see `ClientCache.remove_old`.

        Returns:
          The number of messages left.
        """
        limits = self._store.limits
        with self._cache() as cache:
            cache.remove_old(
                now=self._clock(),
                ttl_days=limits.ttl_days,
                max_per_category=limits.max_per_category,
                is_clock_right=is_clock_right,
            )
            return len(cache)

    def _cache(self) -> contextlib.closing[ClientCache]:
        return contextlib.closing(ClientCache(self._store.cache))

    def _fetch(self, digest: str, *, plan: bool = False) -> None:
        """Fetches a blob into the store and checks its hash, unless the store has it."""
        if self._store.blob(digest).exists():
            return
        part = self._store.part(digest)
        for _ in range(2):  # the part of an earlier start may be from other bytes
            self._client.download(f"/v1/{'plans' if plan else 'models'}/{digest}", part)
            size = part.stat().st_size
            if self._store.take(digest):
                self._say(f"fetched {size / 1e6:.2f} MB, hash verified")
                return
        raise ProgramError("The bytes from the server do not match their hash.")

    def _fetch_change(self, model: str) -> None:
        """Fetches weights as a delta from older weights, if possible.

        It is possible if the store has older weights and the server still has them, too. Otherwise
        `_fetch` downloads the whole weights.
        """
        old = self._store.state.model
        if old is None or not self._store.blob(old).exists() or self._store.blob(model).exists():
            return
        change = self._store.part(model, old)
        self._client.download(f"/v1/models/{model}?from={old}", change)
        size = change.stat().st_size
        weights = self._store.part(model)
        if not apply_patch.run_in_child(self._store.blob(old), change, weights):
            change.replace(weights)  # the server may have sent the whole model instead
        change.unlink(missing_ok=True)
        if self._store.take(model):
            self._say(f"fetched {size / 1e6:.2f} MB, hash verified")

    def _say(self, line: str) -> None:
        """Prints a line, which may have text of the server: from a refusal, a plan or a graph."""
        self._print(printable(line, max_characters=None))

    def _wait_after_refusal(self, error: Refused) -> float:
        """Waits as long as the server asks. Returns the seconds."""
        self._say(f"not taken: {error}")
        return self._later(error.retry_after_s or LATER_SECONDS)

    def _later(self, seconds: float) -> float:
        """Gives up the seat, if there is one, and waits.

        The text of a masked vector that the server may have is deleted, even if the server reports
        that it was not accepted: if the same text were in two sums, their difference could show
        another device's vector.

        The keys of the sum are forgotten. A server can give the next seat the same assignment, and
        with the old keys an update by another plan would get into the sum of the first plan.
        """
        self._masked = None
        task = self._store.state.task
        if task is not None and task.sent and task.secure_sum is not None:
            with self._cache() as cache:
                cache.delete(task.used or [])
        seconds = min(max(float(seconds), 1.0), MAX_SECONDS)
        self._store.change(task=None, not_before=self._clock() + seconds)
        self._store.upload.unlink(missing_ok=True)
        return seconds

    def _plan(self, data: bytes) -> Plan:
        """Reads a plan. Raises `ExportError` unless this device may follow it."""
        try:
            plan = Plan.from_bytes(data)
        except ValueError as error:
            raise ExportError(f"This device cannot follow the plan ({error}).") from None
        population = self._store.population
        if population not in (None, plan.population):
            raise ExportError(
                f"The plan is for the population {plan.population!r}, but this device belongs to "
                f"{population!r}. If its owner agrees to the change, start it with "
                "--population=NAME."
            )
        if plan.min_separation_rounds > MAX_SEPARATION:
            raise ExportError(
                f"The plan has a minimum separation of {plan.min_separation_rounds} rounds, but "
                f"this device follows plans with at most {MAX_SEPARATION}."
            )
        sums = plan.secure_sums
        min_summed = min_honest_in_sum(sums.degree, sums.threshold, colluding=0) if sums else 1
        if min_summed < self._min_devices_in_sum:
            raise ExportError(
                f"The plan sums at least {min_summed} devices, but this device requires "
                f"{self._min_devices_in_sum}."
            )
        return plan


def _token_field(plan: Plan) -> str:
    """Returns the field of `DeviceState` for a plan's tokens. Each kind of server signs its own."""
    return _TOKEN_FIELDS[plan.kind]


def _models(task: SavedTask, plan: Plan) -> list[str]:
    """Returns the weights that a plan needs. Raises `ExportError` if the seat is for others."""
    if plan.new_words is not None:
        if task.model != plan.graph:
            raise ExportError("The seat is for a model, but its plan needs none.")
        return []
    if plan.evaluation is None:
        return [task.model]
    if task.model != plan.evaluation.models[0]:
        raise ExportError("The seat is for a model that its plan does not evaluate first.")
    return plan.evaluation.models
