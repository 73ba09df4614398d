"""The batches that clients train and are evaluated on: pure functions of (seed, round), and cohorts
of the run's key, too, where it has one.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.train_config import EvaluationConfig
from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.federated.learning.client_delivery import Deliver, Handover
from tff_keyboard.federated.learning.cohorts import Cohort, CohortSampler, check_in_weights
from tff_keyboard.storage.metrics_rows import Row

BYTES_PER_PARAMETER = 4  # float32, as it is sent when nothing compresses it

_EVALUATION_SEED = (0, 0)  # apart from those of rounds, which are >= 1


class MessageSource(Protocol):
    """What clients train on beside their own messages; `fine_tuning.rehearsal.Rehearsal` is one."""

    def messages(self, num_own: int, seed: Sequence[int]) -> list[np.ndarray]:
        """Messages ([words] int32 ids) for a client that has `num_own` of its own."""

    def num_bytes(self, messages: Sequence[np.ndarray]) -> int:
        """Size of the messages as they are sent to the client."""


class CohortInputs:
    """The train cohorts of a run.

    Args:
      rehearsal: Source of messages beside the clients' own; None: they train on their own alone.
      cohort_key: Salts the cohorts; without it they, too, depend on seed and round alone.
      num_parameters: Parameters of the model that clients are sent; 0 where nobody asks.

    Raises:
      ValueError: The population is too small for the cohort and its minimum separation.
    """

    def __init__(
        self,
        config: RunConfig,
        store: ClientStore,
        rehearsal: MessageSource | None = None,
        cohort_key: bytes = b"",
        num_parameters: int = 0,
    ):
        self._rehearsal = rehearsal
        self._num_examples = store.num_examples("train")
        self._config = config
        self._store = store
        self.client_ids = store.client_ids("train")
        self._weights = check_in_weights(config, self._num_examples)
        self._cohort_key = cohort_key
        self.wait_after(())
        self._model_bytes = num_parameters * BYTES_PER_PARAMETER

    def selected(self, round_num: int) -> np.ndarray:
        """Positions of the people who are asked in a round."""
        return self._sampler.cohort(round_num).selected

    def wait_after(self, earlier: Sequence[np.ndarray]) -> None:
        """Lets the people of other runs' last rounds wait; before the first round is asked for."""
        people = len(self.client_ids)
        self._sampler = CohortSampler(
            self._config.train, people, earlier, self._weights, self._cohort_key
        )

    @property
    def population(self) -> int:
        """People who may be drawn."""
        return len(self.client_ids)

    def round_input(self, round_num: int, deliver: Deliver | None = None) -> tuple[list[Any], Row]:
        """`(data, facts)` of a round >= 1: the batches of all clients that report, as `deliver`
        hands them to the learning process; a dataset for each client if it is left out.

        Facts: clients selected, dropped and reporting; messages and tokens trained on, over all
        epochs; bytes sent down to the selected (the model and what they are to rehearse) and up
        from the reporting; those of rehearsal alone; a digest of the cohort's client ids.
        """
        cohort, rehearsed, reporting = self._cohort(round_num)
        clients = [self.batches(round_num, index, rehearsed.get(index)) for index in reporting]
        examples = sum(len(batch) for client in clients for batch in client)
        sizes = [
            sum(int(np.count_nonzero(batch[:, 1:] != PAD)) for batch in client)
            for client in clients
        ]
        deliver = deliver or Handover(self._config.execution.sub_rounds or 1)
        facts = self._facts(cohort, reporting, rehearsed, examples, sum(sizes))
        return deliver(clients, sizes), facts

    def round_plan(self, round_num: int, handover: Handover) -> tuple[list[list[int]], Row]:
        """`(groups, facts)` of a round: which clients, by index, `handover.make` is given when.

        No batch is made and no message read.
        """
        cohort, rehearsed, reporting = self._cohort(round_num)
        sizes = self._sizes(round_num, reporting, rehearsed)
        examples, tokens = (int(total) for total in sizes.sum(axis=0))
        groups = [[reporting[p] for p in group] for group in handover.plan(sizes[:, 1].tolist())]
        return groups, self._facts(cohort, reporting, rehearsed, examples, tokens)

    def batches(
        self, round_num: int, index: int, rehearsed: list[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """What a client trains on in a round, [messages, time + 1] int32 arrays.

        `rehearsed` are general messages it is sent; drawn if None, where there is rehearsal.
        """
        config, seed = self._config, self._seed(round_num, index)
        if rehearsed is None:
            rehearsed = self._rehearsed_by(index, round_num)
        messages: Sequence[np.ndarray] = self._store.messages("train", self.client_ids[index])
        most = config.client.max_examples
        lengths = None
        if rehearsed is None:
            lengths = self._store.message_lengths("train", index).tolist()
        else:
            chosen = batches.choose_examples(len(messages), most, seed)
            messages = [*(messages[i] for i in chosen), *rehearsed]
        return batches.client_batches(
            messages,
            batch_size=config.client.batch_size,
            max_length=config.data.max_length,
            # Rehearsal has chosen already; long messages do not make anybody weigh more.
            max_examples=len(messages) if most and self._rehearsal else most,
            epochs=config.client.epochs,
            seed=seed,
            long_messages=config.data.long_messages,
            lengths=lengths,
        )

    def _sizes(
        self, round_num: int, indices: Sequence[int], rehearsed: Mapping[int, Sequence[np.ndarray]]
    ) -> np.ndarray:
        """Sequences and targets of each client's `batches`, over all epochs: [clients, 2]."""
        lengths = [self._store.message_lengths("train", index) for index in indices]
        limits = [self._config.client.max_examples] * len(indices)
        if self._rehearsal is not None:
            for place, index in enumerate(indices):
                lengths[place] = self._with_general(
                    lengths[place], rehearsed[index], self._seed(round_num, index)
                )
            if self._config.client.max_examples:  # as `batches` has it: rehearsal has chosen
                limits = [len(own) for own in lengths]
        sizes = batches.epoch_sizes(
            lengths,
            max_length=self._config.data.max_length,
            limits=limits,
            seed=(self._config.train.seed, round_num),
            names=indices,
            long_messages=self._config.data.long_messages,
        )
        return sizes * self._config.client.epochs

    def _with_general(
        self, lengths: np.ndarray, general: Sequence[np.ndarray], seed: Sequence[int]
    ) -> np.ndarray:
        """Words of each message that a client with rehearsal trains on."""
        chosen = batches.choose_examples(len(lengths), self._config.client.max_examples, seed)
        return np.concatenate([lengths[chosen], [len(message) for message in general]])

    def _cohort(self, round_num: int) -> tuple[Cohort, dict[int, list[np.ndarray]], list[int]]:
        """Who is asked, what general messages they are sent, and who reports."""
        cohort = self._sampler.cohort(round_num)
        left_out = self._config.train.left_out_client
        reporting = [int(index) for index in cohort.reporting if index != left_out]
        return cohort, self._rehearsed(cohort.selected, round_num), reporting

    def _facts(
        self,
        cohort: Cohort,
        reporting: Sequence[int],
        rehearsed: Mapping[int, Sequence[np.ndarray]],
        examples: int,
        tokens: int,
    ) -> Row:
        names = "\n".join(self.client_ids[index] for index in reporting)
        rehearsal_bytes = 0
        if self._rehearsal:
            rehearsal_bytes = sum(map(self._rehearsal.num_bytes, rehearsed.values()))
        return {
            "clients_selected": len(cohort.selected),
            "clients_dropped": len(cohort.dropped),
            "clients": len(reporting),
            "examples": examples,
            "tokens": tokens,
            "bytes_down": len(cohort.selected) * self._model_bytes + rehearsal_bytes,
            "bytes_rehearsal": rehearsal_bytes,
            "bytes_up": len(reporting) * self._model_bytes,
            "cohort": hashlib.sha256(names.encode()).hexdigest()[:16],
        }

    def _rehearsed(self, selected: np.ndarray, round_num: int) -> dict[int, list[np.ndarray]]:
        """General messages of all who were asked: those who dropped out were sent theirs, too."""
        found = {int(index): self._rehearsed_by(int(index), round_num) for index in selected}
        return {index: messages for index, messages in found.items() if messages is not None}

    def _rehearsed_by(self, index: int, round_num: int) -> list[np.ndarray] | None:
        if self._rehearsal is None:
            return None
        most = self._config.client.max_examples or np.inf
        own = int(min(self._num_examples[index], most))
        return self._rehearsal.messages(own, self._seed(round_num, index))

    def _seed(self, round_num: int, index: int) -> tuple[int, int, int]:
        return self._config.train.seed, round_num, index


def evaluation_clients(store: ClientStore, population: str, config: EvaluationConfig) -> list[str]:
    """Ids of the clients of an evaluation: all, or `evaluation.clients`, always the same."""
    client_ids = store.client_ids(population)
    if not config.clients or config.clients >= len(client_ids):
        return client_ids
    chosen = np.random.default_rng(_EVALUATION_SEED).permutation(len(client_ids))
    return [client_ids[index] for index in sorted(chosen[: config.clients])]


def evaluation_clients_batches(
    store: ClientStore, population: str, config: EvaluationConfig, *, max_length: int
) -> list[list[np.ndarray]]:
    """The batches of each of `evaluation_clients`, the same at every call."""
    return [
        batches.evaluation_batches(
            store.examples(population, client_id),
            batch_size=config.batch_size,
            max_length=max_length,
            max_examples=config.max_examples,
            seed=(0,),
        )
        for client_id in evaluation_clients(store, population, config)
    ]
