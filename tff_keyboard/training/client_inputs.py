"""Batches of the clients in training and evaluation: pure functions of (seed, round).

Cohorts also depend on the run's key if it has one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from tff_keyboard.algorithms.cohort_batcher import CohortBatcher, MakeDatasets
from tff_keyboard.algorithms.cohorts import Cohort, CohortSampler, sampling_weights
from tff_keyboard.algorithms.rounds.round_process import RoundInput
from tff_keyboard.config.sections.train_config import EvaluationConfig, TrainConfig
from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.parts.client_algorithm import ClientAlgorithm
from tff_keyboard.storage.metrics_rows import Row

BYTES_PER_PARAMETER = 4  # float32, without compression

_EVALUATION_SEED = (0, 0)  # differs from the seeds of rounds, which are >= 1


class MessageSource(Protocol):
    """Additional training messages of clients, such as `fine_tuning.rehearsal.Rehearsal`."""

    def messages(self, num_own: int, seed: Sequence[int]) -> list[np.ndarray]:
        """Returns messages ([words] int32 ids) for a client with `num_own` messages of its own."""

    def num_bytes(self, messages: Sequence[np.ndarray]) -> int:
        """Returns the bytes of the messages on their way to the client."""


class CohortInputs:
    """Train cohorts of a run, and their batches.

    Args:
      store: The client store.
      train: The table `[train]`.
      client: The table `[client]`.
      max_length: Largest number of words of a sequence; `data.max_length`.
      long_messages: Treatment of longer messages; `data.long_messages`.
      rehearsal: Source of additional messages. None means that clients train only on their own.
      cohort_key: Secret salt of the cohorts. Without it they depend only on seed and round.
      num_parameters: Parameters of the model that clients get; 0 if bytes are not needed.

    Raises:
      ValueError: The population is too small for the cohort and its minimum separation.
    """

    def __init__(
        self,
        store: ClientStore,
        *,
        train: TrainConfig,
        client: ClientAlgorithm,
        max_length: int,
        long_messages: str,
        rehearsal: MessageSource | None = None,
        cohort_key: bytes = b"",
        num_parameters: int = 0,
    ):
        self._rehearsal = rehearsal
        self._num_examples = store.num_messages("train")
        self._train, self._client = train, client
        self._max_length, self._long_messages = max_length, long_messages
        self._store = store
        self.client_ids = store.client_ids("train")
        weights = sampling_weights(train, self._num_examples, max_examples=client.max_examples)
        self._sampler = CohortSampler(train, len(self.client_ids), weights, cohort_key)
        self._model_bytes = num_parameters * BYTES_PER_PARAMETER

    def selected(self, round_num: int) -> np.ndarray:
        """Returns the positions of the selected clients of a round."""
        return self._sampler.cohort(round_num).selected

    @property
    def population(self) -> int:
        """Returns the number of clients that can be drawn."""
        return len(self.client_ids)

    def round_input(self, round_num: int, batcher: MakeDatasets | None = None) -> RoundInput:
        """Returns the batches of all reporting clients of a round >= 1, and facts.

        `batcher` converts them to the input of the learning process; without it the data is one
        dataset per client. Facts: clients selected, dropped and reporting; messages and tokens of
        training, over all epochs; bytes down to the selected clients (the model, the momentum of
        MimeLite and rehearsed messages) and up from the reporting ones; bytes of rehearsal alone; a
        digest of the cohort's client ids.
        """
        cohort, rehearsed, reporting = self._cohort(round_num)
        clients = [self.batches(round_num, index, rehearsed.get(index)) for index in reporting]
        examples = sum(len(batch) for client in clients for batch in client)
        sizes = [
            sum(int(np.count_nonzero(batch[:, 1:] != PAD)) for batch in client)
            for client in clients
        ]
        batcher = batcher or CohortBatcher()
        facts = self._facts(cohort, reporting, rehearsed, examples, sum(sizes))
        return RoundInput(batcher(clients, sizes), facts)

    def round_plan(self, round_num: int, batcher: CohortBatcher) -> tuple[list[list[int]], Row]:
        """Returns `(groups, facts)` of a round: clients, by index, for each `batcher.make`.

        It makes no batch and reads no message.
        """
        cohort, rehearsed, reporting = self._cohort(round_num)
        sizes = self._sizes(round_num, reporting, rehearsed)
        examples, tokens = (int(total) for total in sizes.sum(axis=0))
        groups = [[reporting[p] for p in group] for group in batcher.plan(sizes[:, 1].tolist())]
        return groups, self._facts(cohort, reporting, rehearsed, examples, tokens)

    def batches(
        self, round_num: int, index: int, rehearsed: list[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Returns the training batches of a client in a round, [messages, time + 1] int32 arrays.

        `rehearsed` are its general messages; if None, they are drawn (with rehearsal).
        """
        client, seed = self._client, self._seed(round_num, index)
        if rehearsed is None:
            rehearsed = self._rehearsed_by(index, round_num)
        messages: Sequence[np.ndarray] = self._store.messages("train", self.client_ids[index])
        max_examples = client.max_examples
        lengths = None
        if rehearsed is None:
            lengths = self._store.message_lengths("train", index).tolist()
        else:
            indices = batches.draw_positions(len(messages), max_examples, seed)
            messages = [*(messages[i] for i in indices), *rehearsed]
        return batches.client_batches(
            messages,
            batch_size=client.batch_size,
            max_length=self._max_length,
            # Rehearsal has already chosen the messages. Long messages do not increase a client's
            # weight.
            max_examples=len(messages) if max_examples and self._rehearsal else max_examples,
            epochs=client.epochs,
            seed=seed,
            long_messages=self._long_messages,
            lengths=lengths,
        )

    def _sizes(
        self, round_num: int, indices: Sequence[int], rehearsed: Mapping[int, Sequence[np.ndarray]]
    ) -> np.ndarray:
        """Returns sequences and targets of each client in all epochs: [clients, 2]."""
        lengths = [self._store.message_lengths("train", index) for index in indices]
        limits = [self._client.max_examples] * len(indices)
        if self._rehearsal is not None:
            for position, index in enumerate(indices):
                drawn_indices = batches.draw_positions(
                    len(lengths[position]), self._client.max_examples, self._seed(round_num, index)
                )
                general = [len(message) for message in rehearsed[index]]
                lengths[position] = np.concatenate([lengths[position][drawn_indices], general])
            if self._client.max_examples:  # as in `batches`, where rehearsal has chosen
                limits = [len(client_lengths) for client_lengths in lengths]
        sizes = batches.epoch_sizes(
            lengths,
            max_length=self._max_length,
            limits=limits,
            seed=(self._train.seed, round_num),
            names=indices,
            long_messages=self._long_messages,
        )
        return sizes * self._client.epochs

    def _cohort(self, round_num: int) -> tuple[Cohort, dict[int, list[np.ndarray]], list[int]]:
        """Returns the cohort, its general messages, and the reporting clients."""
        cohort = self._sampler.cohort(round_num)
        excluded = self._train.excluded_client
        reporting = [int(index) for index in cohort.reporting if index != excluded]
        # Dropouts have received general messages, too.
        rehearsed_by_client = {
            int(index): self._rehearsed_by(int(index), round_num) for index in cohort.selected
        }
        rehearsed = {
            index: messages
            for index, messages in rehearsed_by_client.items()
            if messages is not None
        }
        return cohort, rehearsed, reporting

    def _facts(
        self,
        cohort: Cohort,
        reporting: Sequence[int],
        rehearsed: Mapping[int, Sequence[np.ndarray]],
        examples: int,
        tokens: int,
    ) -> Row:
        """Returns the row of a round for the metrics: counts of clients, text and traffic.

        `examples` and `tokens` are those of the reporting clients.
        """
        rehearsal_bytes = 0
        if self._rehearsal:
            rehearsal_bytes = sum(map(self._rehearsal.num_bytes, rehearsed.values()))
        return {
            "clients_selected": len(cohort.selected),
            "clients_dropped": len(cohort.dropped),
            "clients": len(reporting),
            "examples": examples,
            "tokens": tokens,
            "bytes_down": len(cohort.selected) * self._model_bytes * self._client.models_down
            + rehearsal_bytes,
            "bytes_rehearsal": rehearsal_bytes,
            "bytes_up": len(reporting) * self._model_bytes * self._client.models_up,
            "cohort": cohort_digest(self.client_ids[index] for index in reporting),
        }

    def _rehearsed_by(self, index: int, round_num: int) -> list[np.ndarray] | None:
        """Draws the general messages that a client rehearses; None without rehearsal."""
        if self._rehearsal is None:
            return None
        max_examples = self._client.max_examples or np.inf
        num_messages = int(min(self._num_examples[index], max_examples))
        return self._rehearsal.messages(num_messages, self._seed(round_num, index))

    def _seed(self, round_num: int, index: int) -> tuple[int, int, int]:
        return self._train.seed, round_num, index


def cohort_digest(client_ids: Iterable[str]) -> str:
    """Returns a digest of the clients of a round, 16 hexadecimal digits."""
    return hashlib.sha256("\n".join(client_ids).encode()).hexdigest()[:16]


def evaluation_clients(store: ClientStore, population: str, config: EvaluationConfig) -> list[str]:
    """Returns the ids of the clients of an evaluation: all, or `evaluation.clients` fixed ones."""
    client_ids = store.client_ids(population)
    if not config.clients or config.clients >= len(client_ids):
        return client_ids
    order = np.random.default_rng(_EVALUATION_SEED).permutation(len(client_ids))
    return [client_ids[index] for index in sorted(order[: config.clients])]


def evaluation_clients_batches(
    store: ClientStore, population: str, config: EvaluationConfig, *, max_length: int
) -> list[list[np.ndarray]]:
    """Returns the batches of each of `evaluation_clients`, the same at every call."""
    return [
        batches.evaluation_batches(
            store.messages(population, client_id),
            batch_size=config.batch_size,
            max_length=max_length,
            max_examples=config.max_examples,
            seed=(0,),
        )
        for client_id in evaluation_clients(store, population, config)
    ]
