"""Connects the round loop with the round server: opens rounds, reads uploads, releases models.

    round n opens     after round n - 1 is released, with its model and the plan of round n
    round_input(n)    waits until the round aggregates, and returns its uploads in order of arrival
    before_release    writes the new weights to disk under their hash; they cannot be fetched yet
    released          ledger line, row and checkpoint are on disk: uploads are deleted, the weights
                      can be fetched, round n + 1 opens

The uploads of a round that aggregates are fixed. After a kill the loop therefore computes the same
result, bit by bit. This is a `Hook` of `tff_keyboard/training/loop/training_loop.py`, the last one
of a run.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tff_keyboard.algorithms.rounds.averaged import held_weights
from tff_keyboard.algorithms.rounds.round_process import RoundInput
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard.storage.metrics_rows import Row
from tff_keyboard.training.loop import training_loop
from tff_keyboard_fleet.on_devices import upload_work
from tff_keyboard_fleet.round_server.app import delta_of
from tff_keyboard_fleet.round_server.blobs import Blobs
from tff_keyboard_fleet.round_server.round_store import RoundStore
from tff_keyboard_fleet.round_server.rounds import Round
from tff_keyboard_fleet.round_server.secure_rounds import SecureRoundStore
from tff_keyboard_fleet.round_server.tables import Upload
from tff_keyboard_fleet.wire import weights
from tff_keyboard_fleet.wire.plan import Plan, SecureSums

_KEPT_ROUNDS = 8  # number of latest rounds whose models can be fetched


class DeviceRounds:
    """The rounds of a run, as a hook of the round loop.

    Args:
      store: The rounds on disk.
      blobs: Files that devices fetch.
      initial: Weights before round 1, [parameters] float32.
      order: For each number on the wire, its index in a vector of weights; [parameters] int.
      plan_of: Returns the plan of a round >= 1.
      hand_over: Converts elements of uploads to the input of the process.
      total_rounds: Number of rounds of the run; no further round is opened.
      graph: SHA-256 of the graph that devices train.
      is_private: Whether the process adds noise to secure sums, as integers.
    """

    def __init__(
        self,
        store: RoundStore,
        blobs: Blobs,
        *,
        initial: np.ndarray,
        order: np.ndarray,
        plan_of: Callable[[int], Plan],
        hand_over: Callable[[list[Any]], list[Any]],
        total_rounds: int,
        graph: str,
        is_private: bool = False,
    ):
        self._store, self._blobs = store, blobs
        self._plan_of, self._hand_over = plan_of, hand_over
        self._total_rounds, self._graph = total_rounds, graph
        self._order, self._is_private = order, is_private
        self._published = threading.Condition()
        self._newest = -1  # round whose model is released
        self._is_stopped = False
        self._keep_model(0, initial)

    @property
    def codec(self) -> str:
        """`Codec.name` of every plan."""
        return self._plan_of(1).codec.name

    def round_input(self, round_num: int) -> RoundInput:
        """Waits for the uploads of a round, and returns its data and facts.

        Raises:
          ProgramError: If `close` was called meanwhile.
        """
        with self._published:
            self._published.wait_for(lambda: self._newest >= round_num - 1 or self._is_stopped)
        round_ = None if self._is_stopped else self._store.wait_for_uploads(round_num)
        if round_ is None:
            raise ProgramError("The round server was stopped.")
        elements, claimed, size, cohort = [], 0.0, 0, hashlib.sha256()
        sums = self._plan_of(round_num).secure_sums
        for upload in self._store.uploads(round_num, round_.attempt):
            if sums is None:
                elements.append(self._element(upload))
            claimed += upload.weight
            size += len(upload.payload)
            cohort.update(upload.assignment.encode())
        elements += self._without_uploads(round_)
        clients = round_.accepted if sums else len(elements)
        if sums:
            elements = self._elements_of_sum(round_, sums)
        weighting = self._plan_of(round_num).weighting
        facts: Row = {
            "clients_selected": self._store.round_settings.max_seats,
            "clients_dropped": round_.seats - clients,
            "clients": clients,
            "examples": claimed if weighting == "examples" else 0,
            "tokens": claimed if weighting == "tokens" else 0,
            "bytes_down": round_.seats * len(self._order) * weights.BYTES_PER_NUMBER,
            "bytes_rehearsal": 0,
            "bytes_up": size,
            "cohort": cohort.hexdigest()[:16],
            "attempts": round_.attempt,
        }
        return RoundInput(self._hand_over(elements), facts)

    def restart_after(self, round_num: int) -> None:
        """Starts or resumes the run after a round whose checkpoint is on disk."""
        self._store.restart_after(round_num)
        self._publish(round_num)

    def before_release(
        self, round_num: int, state: Any, metrics: Mapping[str, Any]
    ) -> Mapping[str, float]:
        """Writes the weights to disk."""
        del metrics
        self._keep_model(round_num, weights.to_vector(held_weights(state).trainable))
        return {}

    def released(self, progress: training_loop.RoundProgress) -> None:
        """Releases a round, after all its results are on disk."""
        self._store.release(progress.round_num)
        self._publish(progress.round_num)

    def close(self) -> None:
        """Ends a waiting `round_input`."""
        self._store.stop()
        with self._published:
            self._is_stopped = True
            self._published.notify_all()

    def _keep_model(self, round_num: int, vector: np.ndarray) -> None:
        self._store.keep_model(round_num, self._blobs.keep(weights.to_bytes(vector[self._order])))

    def _publish(self, round_num: int) -> None:
        """Publishes the model after a round, and opens the next round, if there is one.

        Deletes the blobs that no device can still need.
        """
        model = self._store.model_after(round_num)
        plan = self._blobs.keep(self._plan_of(round_num + 1).to_bytes())
        # Some devices of the previous round may still fetch its model. Others have an older model,
        # and fetch the difference.
        oldest = max(round_num - _KEPT_ROUNDS, 0)
        published_blobs = {self._store.model_after(number) for number in range(oldest, round_num)}
        published_blobs |= {model, plan, self._graph}
        if current := self._store.round:
            published_blobs.add(current.plan)
        for name in published_blobs:
            self._blobs.show(name)
        if round_num < self._total_rounds:
            self._store.open_round(round_num + 1, model, plan)
        self._blobs.keep_only(published_blobs)
        with self._published:
            self._newest = round_num
            self._published.notify_all()

    def _without_uploads(self, round_: Round) -> list[Any]:
        """Returns elements for the members of a round that were not to upload.

        In a round of which only the top uploads, the losses of the other members count, but their
        deltas do not, so zeros stand for their deltas. If losses are equal, those of the uploads
        come first.
        """
        if self._store.round_settings.top is None:
            return []
        limit = self._store.round_settings.members(round_) - round_.accepted
        uploads = self._store.uploads(round_.number, round_.attempt)
        worst = np.nextafter(np.float32(max(upload.loss for upload in uploads)), np.float32(np.inf))
        nothing = np.zeros(len(self._order), np.float32)
        return [
            upload_work.element(nothing, weight, max(loss, float(worst)))
            for weight, loss in self._store.told_only(round_.number, round_.attempt, limit)
        ]

    def _elements_of_sum(self, round_: Round, sums: SecureSums) -> list[Any]:
        """Returns elements that stand for the deltas of a round, of which only the sum is known."""
        assert isinstance(self._store, SecureRoundStore)
        total = np.empty(len(self._order), f"<i{sums.bits // 8}")
        total[self._order] = self._store.total(round_).view(total.dtype)
        if self._is_private:
            return [upload_work.element(part, 0.0, 0.0) for part in upload_work.parts_of(total)]
        mean = (total * (sums.step / round_.accepted)).astype(np.float32)
        return [upload_work.element(mean, 0.0, 0.0)]

    def _element(self, upload: Upload) -> Any:
        """Returns an upload as an element of client data, with its numbers in the model's order."""
        delta = np.empty(len(self._order), np.float32)
        delta[self._order] = delta_of(upload, len(self._order))
        return upload_work.element(delta, upload.weight, upload.loss)
