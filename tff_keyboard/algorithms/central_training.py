"""Central training of the same model on all text: the baseline of federated training.

Messages are pooled and shuffled, and each batch is one step, as for the server-trained model of
Hard et al. 2018 (section 5.1, https://arxiv.org/abs/1811.03604). The optimizer follows
[central]: the clients' SGD, or Adam, Yogi or Adagrad with a schedule. `CentralTraining` is a
`RoundProcess`, so both kinds of training use the round loop with its checkpoints, metrics and exact
resume. A "round" is a fixed number of messages.

With [fine_tuning.method] it is the single node of Popov et al. 2018 (section 2.5, Table 1,
https://arxiv.org/abs/1712.07473): rehearsal mixes general messages into each round, and learning
without forgetting keeps the initial model as its teacher in all rounds.
"""

import functools
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.fine_tuning import lwf
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.algorithms.rounds.round_process import RoundInput, RoundOutput
from tff_keyboard.algorithms.variable_model import TrainingStep
from tff_keyboard.data import batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.softmax_loss import softmax_loss
from tff_keyboard.storage.metrics_rows import Row

_EPOCH_ORDER = 1  # separates the seed of the order of messages from the seeds of batches


class CentralState(NamedTuple):
    """Weights in `trainable_variables` order, the optimizer's state, and the teacher's weights."""

    weights: list[np.ndarray]
    optimizer: Any
    teacher: Sequence[np.ndarray] = ()


class CentralTraining:
    """One optimizer step per batch, as a `RoundProcess`.

    Args:
      model: Its current weights are the initial ones. Training changes the instance.
      optimizer: Takes the gradient of the mean loss over a batch's targets, in nats. In contrast to
        a client's, its state continues from round to round.
      teacher: Another model of the same architecture with fixed weights, for learning without
        forgetting. None means the ordinary loss. It is part of the state, so a round stays a pure
        function of the state and its data.
      true_label_weight: lambda of `lwf.training_step`, in [0, 1].
    """

    def __init__(
        self,
        model: NextWordModel,
        optimizer: tff.learning.optimizers.Optimizer,
        teacher: NextWordModel | None = None,
        true_label_weight: float = 1.0,
    ):
        self._model = model
        self._teacher = teacher
        self._true_label_weight = true_label_weight
        self._optimizer = optimizer
        variables = model.trainable_variables
        specs = [tf.TensorSpec(v.shape, v.dtype) for v in variables]
        self._optimizer_state = tf.nest.map_structure(
            lambda value: tf.Variable(value, trainable=False), optimizer.initialize(specs)
        )
        self._initial = self._read()
        self._step = tf.function(
            self._train_on_batch, input_signature=[tf.TensorSpec([None, None], tf.int32)]
        )

    def initialize(self) -> CentralState:
        """Returns the initial weights and a new state of the optimizer."""
        return self._initial

    def next(self, state: CentralState, datasets: Sequence[np.ndarray]) -> RoundOutput:
        """Takes one step per batch, in order, and returns the new state and sums over the round.

        If weights are no longer finite, the state is the old one and `finalizer/update_non_finite`
        is 1.
        """
        taught = self._teacher.trainable_variables if self._teacher else ()
        ours = [*self._model.trainable_variables, *tf.nest.flatten(self._optimizer_state)]
        for variable, value in zip([*ours, *taught], tf.nest.flatten(state), strict=True):
            variable.assign(value)
        sums = {"examples": 0, "tokens": 0, "nll": 0.0, "argmax_hits": 0}
        for batch in datasets:
            nll, hits = self._step(batch)
            sums["examples"] += len(batch)
            sums["tokens"] += int(np.count_nonzero(batch[:, 1:] != PAD))
            sums["nll"] += float(nll)
            sums["argmax_hits"] += int(hits)
        after = self._read()
        is_finite = all(np.isfinite(weight).all() for weight in after.weights)
        metrics = {
            "client_work": {"train": sums},
            "finalizer": {"update_non_finite": int(not is_finite)},
        }
        return RoundOutput(after if is_finite else state, metrics)

    def get_model_weights(self, state: CentralState) -> tff.learning.models.ModelWeights:
        """Returns the weights of a state."""
        return tff.learning.models.ModelWeights(list(state.weights), [])

    def _read(self) -> CentralState:
        """Returns the variables of model, optimizer and teacher as arrays."""
        return CentralState(
            [variable.numpy() for variable in self._model.trainable_variables],
            tf.nest.map_structure(lambda variable: variable.numpy(), self._optimizer_state),
            [v.numpy() for v in self._teacher.trainable_variables] if self._teacher else (),
        )

    def _train_on_batch(self, batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Makes one optimizer step on ids [batch, time + 1].

        Returns the sum of the true words' losses before the step, in nats, and the number of words
        that the model predicted correctly.
        """
        variables = self._model.trainable_variables
        with tf.GradientTape() as tape:
            step = self._losses(batch[:, :-1], batch[:, 1:])
            count = tf.cast(tf.size(step.targets), tf.float32)
            loss = tf.math.divide_no_nan(tf.reduce_sum(step.losses), count)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
        optimizer_state, weights = self._optimizer.next(
            tf.nest.map_structure(tf.convert_to_tensor, self._optimizer_state),
            [tf.convert_to_tensor(variable) for variable in variables],
            gradients,
        )
        variables_to_set = [*variables, *tf.nest.flatten(self._optimizer_state)]
        values = [*weights, *tf.nest.flatten(optimizer_state)]
        for variable, value in zip(variables_to_set, values, strict=True):
            variable.assign(value)
        nll = tf.reduce_sum(tf.cast(step.true_losses, tf.float64))
        return nll, tf.math.count_nonzero(step.is_best)

    def _losses(self, ids: tf.Tensor, targets: tf.Tensor) -> TrainingStep:
        """Returns the losses of a batch, with the teacher's soft labels if there is a teacher."""
        if self._teacher is not None:
            return lwf.training_step(
                self._model, self._teacher, ids, targets, self._true_label_weight
            )
        hidden, table, bias, words = self._model.packed_hidden_at_targets(ids, targets, True)
        losses, is_best = softmax_loss(hidden, table, bias, words)
        return TrainingStep(losses, losses, is_best, words)


class PooledInputs:
    """Batches of each round: a pure function of (seed, round).

    All train clients' messages are shuffled anew every epoch, epochs follow each other without a
    gap, and a round takes the next `messages_per_round`. Rehearsal adds general messages, drawn for
    each round.

    Args:
      store: The client store.
      messages_per_round: Messages of a round, >= 1, without rehearsed ones.
      batch_size: Messages of a batch.
      max_length: Largest number of words of a sequence; `data.max_length`.
      long_messages: Treatment of longer messages; `data.long_messages`.
      seed: Seed of the run.
      rehearsal: Source of general messages, if any.

    Raises:
      ValueError: There are no messages.
    """

    def __init__(
        self,
        store: ClientStore,
        *,
        messages_per_round: int,
        batch_size: int,
        max_length: int,
        long_messages: str,
        seed: int,
        rehearsal: Rehearsal | None = None,
    ):
        self.messages_per_round = messages_per_round
        self._store = store
        self._batch_size = batch_size
        self._max_length = max_length
        self._long_messages = long_messages
        self._seed = seed
        self._rehearsal = rehearsal
        if not len(self._lengths):
            raise ValueError(f"{store.directory} has no train messages.")

    @functools.cached_property
    def _lengths(self) -> np.ndarray:
        """Returns the words of all messages, client by client, without reading text."""
        clients = range(len(self._store.client_ids("train")))
        each = [self._store.message_lengths("train", client) for client in clients]
        return np.concatenate([*each, np.zeros(0, np.int64)]).astype(np.int64)

    @functools.cached_property
    def _messages(self) -> list[np.ndarray]:
        return self._store.all_messages("train")

    @property
    def tokens_per_epoch(self) -> int:
        """Returns the targets of an epoch of the pooled text, with the mean of rehearsed ones."""
        targets = int(self._targets(self._lengths).sum())
        if self._rehearsal is None:
            return targets
        rounds = len(self._lengths) / self.messages_per_round
        general = self._rehearsal.num_messages(self.messages_per_round)
        return targets + round(rounds * general * self._targets(self._rehearsal.lengths).mean())

    def rounds_for(self, tokens: float) -> int:
        """Returns the number of rounds that train on about `tokens`, at least 1."""
        per_message = self.tokens_per_epoch / len(self._lengths)
        return max(1, math.ceil(tokens / (per_message * self.messages_per_round)))

    def round_input(self, round_num: int) -> RoundInput:
        """Returns the batches of a round >= 1, [messages, time + 1] int32 each, and facts.

        Facts: trained messages and targets, and passes over the pooled text so far.
        """
        indices = self._message_indices(round_num)
        general: list[np.ndarray] = []
        if self._rehearsal is not None:
            seed = (self._seed, round_num)
            general = self._rehearsal.messages(self.messages_per_round, seed)
        round_batches = batches.client_batches(
            [*(self._messages[index] for index in indices), *general],
            batch_size=self._batch_size,
            max_length=self._max_length,
            max_examples=0,
            epochs=1,
            seed=(self._seed, round_num),
            long_messages=self._long_messages,
        )
        return RoundInput(round_batches, self._facts(round_num, indices, general))

    def _message_indices(self, round_num: int) -> list[int]:
        """Returns the indices of the messages of a round, in the order of its epoch."""
        first = (round_num - 1) * self.messages_per_round
        indices: list[int] = []
        while len(indices) < self.messages_per_round:
            epoch, offset = divmod(first + len(indices), len(self._lengths))
            seed = [self._seed, _EPOCH_ORDER, epoch]
            order = np.random.default_rng(seed).permutation(len(self._lengths))
            indices.extend(order[offset : offset + self.messages_per_round - len(indices)].tolist())
        return indices

    def _facts(self, round_num: int, indices: list[int], general: list[np.ndarray]) -> Row:
        lengths = [*self._lengths[indices], *map(len, general)]
        return {
            "examples": len(lengths),
            "tokens": int(self._targets(np.asarray(lengths)).sum()),
            "epochs": round(round_num * self.messages_per_round / len(self._lengths), 6),
        }

    def _targets(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the number of targets of messages with some words."""
        longest = self._max_length if self._long_messages == "truncate" else sys.maxsize
        return np.minimum(lengths + 1, longest)
