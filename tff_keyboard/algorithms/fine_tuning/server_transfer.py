"""Transfer learning on the server: it learns its clients' predictions instead of averaging weights.

    L = - sum_x sum_w [ 1/K sum_k p_k(w|x) ] log p(w|x)

p_k are the K models that clients trained from the server's model, p is the server's model, and x
are the contexts of a text that the server has, or that its model writes. The server minimises L
with SGD. The text of a round is a pure function of (seed, round, model at the start of the round),
so that a resumed run repeats it.

This is a simulation only: the server sees the model of every client, which secure aggregation would
hide, and nothing bounds the information that such a model reveals. Source: Popov et al. 2018,
section 2.3, eq. 4, https://arxiv.org/abs/1712.07473.
"""

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.composition import ClientWork, ModelFn, with_initial_weights
from tff_keyboard.algorithms.fed_avg import build_fed_avg
from tff_keyboard.algorithms.optimizers.local_sgd import LocalSgd
from tff_keyboard.algorithms.rounds.round_process import (
    CountedState,
    RoundOutput,
    RoundProcess,
    RoundTransform,
)
from tff_keyboard.config.sections.fine_tuning_config import TransferConfig
from tff_keyboard.data.batches import client_batches
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.distillation_loss import soft_softmax_loss
from tff_keyboard.models.generation import sample_texts
from tff_keyboard.models.saved_model import weights_by_name

SIMULATION_ONLY = (
    "`fine_tuning.server.type` = 'transfer' is a simulation only: the server sees the model of "
    "every client, which secure aggregation would hide."
)

# (round number >= 1, server's model at the start of the round) -> batches [messages, time + 1]
# int32 of the server's training.
TransferText: TypeAlias = Callable[[int, NextWordModel], list[np.ndarray]]

_SERVER = 2**32 - 1  # stands for a client in seeds, so that no client has the server's draws


class ServerTransferProcess:
    """Trains clients as in FedAvg, and the server on the mean of their predictions.

    A `RoundProcess`. On a given machine, a round is a pure function of its arguments.

    Args:
      process: FedAvg, called with one client at a time, whose new model is the model of this
        client. `finalizer/update_non_finite` is 1 if the client has no usable model.
      model: A model of the clients' architecture. Neither its weights nor the instance are used.
      text: Text of a round, see `build_transfer_text`.
      learning_rate: Learning rate of the server's SGD. The loss is the mean of L over the tokens of
        a batch, in nats.
      clip_norm: Bound on the L2 norm of the server's gradients; 0 means none.
    """

    def __init__(
        self,
        process: RoundProcess,
        model: NextWordModel,
        text: TransferText,
        *,
        learning_rate: float,
        clip_norm: float,
    ):
        self._process = process
        self._text = text
        self._student, self._teacher = (
            build_model(
                model.name_in_registry,
                vocabulary_size=model.vocabulary_size,
                seed=None,
                **model.options,
            )
            for _ in range(2)
        )
        self._optimizer = LocalSgd(learning_rate, clip_norm or None)
        batch = tf.TensorSpec([None, None], tf.int32)
        soft_labels = tf.TensorSpec([None, model.vocabulary_size], tf.float32)
        self._predict = tf.function(self._teacher_probabilities, [batch], autograph=False)
        self._step = tf.function(self._train_on_batch, [batch, soft_labels], autograph=False)

    def initialize(self) -> CountedState:
        """Returns the initial weights, after 0 rounds."""
        return CountedState(self._process.initialize(), np.int64(0))

    def next(self, state: CountedState, datasets: Sequence[Any]) -> RoundOutput:
        """Computes one round.

        Args:
          state: State before the round.
          datasets: One per client, in the form that the inner process takes.

        Returns:
          The new state and metrics. `client_work` has the sums over all clients.
          `finalizer/update_non_finite` is 1 if no client has a usable model, or if the new model of
          the server is not finite; the state then keeps the old weights. Metrics of the server's
          training: `transfer/soft_loss_first` and `transfer/soft_loss_last` (L in nats per token,
          over the first and the last tenth of the steps; NaN without steps), `transfer/messages`
          and `transfer/tokens` (over all epochs), `transfer/clients` (K) and
          `transfer/clients_dropped` (clients without a usable model).
        """
        round_num = int(state.rounds) + 1
        client_work, teachers = [], []
        # An empty cohort is one call of `process` without clients, whose metrics are zeros.
        for cohort in [[dataset] for dataset in datasets] or [[]]:
            output = self._process.next(state.process, cohort)
            client_work.append(output.metrics["client_work"])
            weights = output.state.global_model_weights.trainable
            if not output.metrics["finalizer"]["update_non_finite"] and _is_finite(weights):
                teachers.append([tf.constant(weight) for weight in weights])
        start = state.process.global_model_weights
        batches: list[np.ndarray] = []
        losses: list[float] = []  # sum over the tokens of each batch
        server_weights: list[np.ndarray] = []
        if teachers:
            _assign(self._student, start.trainable)
            batches = self._text(round_num, self._student)
            losses = [self._learn(teachers, batch) for batch in batches]
            server_weights = [variable.numpy() for variable in self._student.trainable_variables]
        is_usable = bool(teachers) and _is_finite(server_weights)
        process_state = state.process
        if is_usable:
            process_state = process_state._replace(
                global_model_weights=tff.learning.models.ModelWeights(
                    server_weights, start.non_trainable
                )
            )
        tokens = [int(np.count_nonzero(batch[:, 1:] != PAD)) for batch in batches]
        tenth = max(1, len(batches) // 10)
        metrics = {
            "client_work": tf.nest.map_structure(lambda *values: sum(values), *client_work),
            "finalizer": {"update_non_finite": int(not is_usable)},
            "transfer": {
                "soft_loss_first": _ratio(sum(losses[:tenth]), sum(tokens[:tenth])),
                "soft_loss_last": _ratio(sum(losses[-tenth:]), sum(tokens[-tenth:])),
                "messages": sum(map(len, batches)),
                "tokens": sum(tokens),
                "clients": len(teachers),
                "clients_dropped": len(datasets) - len(teachers),
            },
        }
        return RoundOutput(CountedState(process_state, np.int64(round_num)), metrics)

    def get_model_weights(self, state: CountedState) -> tff.learning.models.ModelWeights:
        """Returns the server's weights."""
        return self._process.get_model_weights(state.process)

    def _learn(self, teachers: Sequence[Sequence[tf.Tensor]], batch: np.ndarray) -> float:
        """Takes one step of SGD on a batch. Returns L before the step."""
        # Soft labels of one batch are some megabytes, of the whole text some gigabytes.
        soft_labels = tf.zeros([])
        for weights in teachers:
            _assign(self._teacher, weights)  # shares the memory of the tensors
            soft_labels += self._predict(batch)
        return float(self._step(batch, soft_labels / len(teachers)))

    def _teacher_probabilities(self, batch: tf.Tensor) -> tf.Tensor:
        """Returns [n, vocabulary] float32 for the n targets of a batch without padding."""
        logits, _ = self._teacher.score(batch[:, :-1], batch[:, 1:])
        return tf.nn.softmax(logits)

    def _train_on_batch(self, batch: tf.Tensor, soft_labels: tf.Tensor) -> tf.Tensor:
        """Makes one step of the student on ids [batch, time + 1]. Returns the sum of its losses.

        `soft_labels` are the mean predictions of the clients, [targets, vocabulary].
        """
        variables = self._student.trainable_variables
        with tf.GradientTape() as tape:
            hidden, table, bias, targets = self._student.packed_hidden_at_targets(
                batch[:, :-1], batch[:, 1:], True
            )
            losses, *_ = soft_softmax_loss(
                hidden, table, bias, targets, soft_labels, true_weight=0.0
            )
            loss = tf.reduce_mean(losses)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
        self._optimizer.update(self._optimizer.initialize(None), variables, gradients)
        return tf.reduce_sum(tf.cast(losses, tf.float64))


def build_transfer_text(
    transfer: TransferConfig, general_store: ClientStore | None, *, max_length: int, seed: int
) -> TransferText:
    """Returns the source of the text of `fine_tuning.server.text`.

    Each round has other messages. "general" draws `transfer.messages` train messages of the general
    store without replacement, or takes all if there are fewer. "generated" draws as many messages,
    word after word, from the server's model. A message has at most `max_length` targets.

    Raises:
      ValueError: `transfer.text` is "general" and there is no general store.
    """
    general: list[np.ndarray] = []
    if transfer.text == "general":
        if general_store is None:
            raise ValueError(
                "`fine_tuning.server.text` = 'general' requires the client store of "
                "`fine_tuning.general_store`, got None."
            )
        general = general_store.all_messages("train")

    def text(round_num: int, model: NextWordModel) -> list[np.ndarray]:
        round_seed = (seed, round_num, _SERVER)
        messages = general
        if transfer.text == "generated":
            text_seed = int(np.random.SeedSequence(round_seed).generate_state(1, np.uint64)[0])
            rows = sample_texts(model, transfer.messages, max_length, text_seed, allow_end=True)
            messages = [row[row != PAD] for row in rows]
        return client_batches(
            messages,
            batch_size=transfer.batch_size,
            max_length=max_length,
            max_examples=transfer.messages,
            epochs=transfer.epochs,
            seed=round_seed,
            long_messages="truncate",  # a generated message of `max_length` words has no end
        )

    return text


def build_client_models(
    model_fn: ModelFn,
    initial_model: NextWordModel,
    *,
    client_optimizer: tff.learning.optimizers.Optimizer,
    wrap_client_work: Callable[[ClientWork], ClientWork] | None = None,
    joined: bool = False,
) -> tff.learning.templates.LearningProcess:
    """Builds the inner process of `ServerTransferProcess`: one client's model in each call.

    Args:
      model_fn: Builds the model of the clients. A client whose `num_examples` is 0 is dropped.
      initial_model: Model before the first round.
      client_optimizer: Local optimizer. Its state starts anew on every client in every round.
      wrap_client_work: Changes the work of clients, for simulations of attacks.
      joined: See `build_fed_avg`.
    """
    process = build_fed_avg(
        model_fn,
        client_optimizer=client_optimizer,
        server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        # The mean of one client of weight 0 is NaN. The finalizer rejects it, so that a client
        # without text is not taken for a client whose model is equal to the server's.
        aggregator=tff.aggregators.MeanFactory(),
        uniform_weights=False,
        wrap_client_work=wrap_client_work,
        joined=joined,
    )
    return with_initial_weights(process, list(weights_by_name(initial_model).values()))


def build_server_transfer(
    transfer: TransferConfig,
    initial_model: NextWordModel,
    general_store: ClientStore | None,
    *,
    max_length: int,
    seed: int,
) -> RoundTransform:
    """Returns the transform that trains the server, and warns that it is a simulation.

    Args:
      transfer: The table `[fine_tuning.server]`.
      initial_model: Model before the first round.
      general_store: Store of general text. Required if `transfer.text` is "general".
      max_length: Maximum number of targets of a message.
      seed: Seed of the run.

    Raises:
      ValueError: There is no general text.
    """
    warnings.warn(SIMULATION_ONLY, stacklevel=2)
    return functools.partial(
        ServerTransferProcess,
        model=initial_model,
        text=build_transfer_text(transfer, general_store, max_length=max_length, seed=seed),
        learning_rate=transfer.learning_rate,
        clip_norm=transfer.clip_norm,
    )


def _assign(model: NextWordModel, weights: Sequence[Any]) -> None:
    for variable, weight in zip(model.trainable_variables, weights, strict=True):
        variable.assign(weight)


def _is_finite(weights: Sequence[Any]) -> bool:
    return all(np.isfinite(weight).all() for weight in weights)


def _ratio(loss: float, tokens: int) -> float:
    return loss / tokens if tokens else math.nan
