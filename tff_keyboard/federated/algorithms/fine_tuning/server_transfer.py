"""The server learns from its clients' predictions instead of averaging their weights.

    L = - sum_x sum_w [ 1/K sum_k p_k(w|x) ] log p(w|x)

p_k are the K models that clients trained from the server's, p is the server's, x runs over the
contexts of a text that the server has or generates (`transfer_text.py`). Source: Popov et al. 2018,
section 2.3, eq. 4, https://arxiv.org/abs/1712.07473.
"""

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.config.sections.fine_tuning_config import Averaging, Transfer
from tff_keyboard.config.sections.learning_config import FedAvgServer
from tff_keyboard.config.sections.rule_config import Mean
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.federated.algorithms.fine_tuning.transfer_text import (
    TransferText,
    build_transfer_text,
)
from tff_keyboard.federated.learning.optimizers.local_sgd import ClippedOptimizer
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.distillation_loss import soft_softmax_loss
from tff_keyboard.program.rounds.round_process import CountedState, RoundOutput, RoundProcess

SIMULATION_ONLY = (
    "`fine_tuning.server.name` = 'transfer' is a simulation only: the server sees every client's "
    "own model, which secure aggregation would hide, and nothing bounds what it gives away."
)


class _Step(NamedTuple):
    loss: float  # summed over tokens, in nats
    tokens: int


class ServerTransferProcess:
    """Clients train as in FedAvg, the server on their average predictions.

    A `RoundProcess`. The clients are trained by `process`, one
    at a time, on TFF's workers; the server's training runs in this process. A round is a pure
    function of its arguments, on a given machine.

    Args:
      process: FedAvg whose server takes the one client's model as it is (`one_client_config`), and
        whose finalizer reports `update_non_finite` = 1 where the client had no usable model.
      model: Tells the architecture; neither its weights nor the instance are used.
      learning_rate: Rate of the server's SGD; the loss is the mean over a batch's tokens, in nats.
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
        name, options = model.name_in_registry, model.options
        size, seed = model.vocabulary_size, 0  # weights are those of the state and of the clients
        self._student, self._teacher = (
            build_model(name, vocabulary_size=size, seed=seed, **options) for _ in range(2)
        )
        self._optimizer = tff.learning.optimizers.build_sgdm(learning_rate)
        if clip_norm:
            self._optimizer = ClippedOptimizer(self._optimizer, clip_norm)
        batch = tf.TensorSpec([None, None], tf.int32)
        soft_labels = tf.TensorSpec([None, model.vocabulary_size], tf.float32)
        self._predict = tf.function(self._probabilities, input_signature=[batch])
        self._step = tf.function(self._train_on_batch, input_signature=[batch, soft_labels])

    def initialize(self) -> CountedState:
        """Initial weights, no round done."""
        return CountedState(self._process.initialize(), np.int64(0))

    def next(self, state: CountedState, datasets: Sequence[Any]) -> RoundOutput:
        """One round.

        Args:
          datasets: One for each client, as `process` takes them.

        Returns:
          The new state and metrics: `client_work` of all clients, summed;
          `finalizer/update_non_finite`, 1 where no client had a usable model or the server's is
          no longer finite, and then the weights are the old ones; and of the server's training
          `transfer/soft_loss_first`, `transfer/soft_loss_last` (eq. 4 in nats a token, over the
          first and the last tenth of its steps; NaN without steps), `transfer/messages`,
          `transfer/tokens` (over all epochs), `transfer/clients` (K) and
          `transfer/clients_dropped` (without a usable model).
        """
        round_num = int(state.rounds) + 1
        # An empty cohort is a round too, with metrics of zeros.
        cohort = [[dataset] for dataset in datasets] or [[]]
        client_work, teachers = [], []
        for one_client in cohort:
            output = self._process.next(state.process, one_client)
            client_work.append(output.metrics["client_work"])
            weights = output.state.global_model_weights.trainable
            if not output.metrics["finalizer"]["update_non_finite"] and _is_finite(weights):
                teachers.append([tf.constant(weight) for weight in weights])
        start = state.process.global_model_weights
        steps: list[_Step] = []
        messages, is_finite = 0, False
        if teachers:
            _assign(self._student, start.trainable)
            batches = self._text(round_num, self._student)
            steps = [self._learn(teachers, batch) for batch in batches]
            messages = sum(len(batch) for batch in batches)
            learned = [variable.numpy() for variable in self._student.trainable_variables]
            is_finite = _is_finite(learned)
        after = state.process
        if is_finite:
            weights = tff.learning.models.ModelWeights(learned, start.non_trainable)
            after = after._replace(global_model_weights=weights)
        tenth = max(1, len(steps) // 10)
        metrics = {
            "client_work": tf.nest.map_structure(lambda *values: sum(values), *client_work),
            "finalizer": {"update_non_finite": int(not is_finite)},
            "transfer": {
                "soft_loss_first": _mean_loss(steps[:tenth]),
                "soft_loss_last": _mean_loss(steps[-tenth:]),
                "messages": messages,
                "tokens": sum(step.tokens for step in steps),
                "clients": len(teachers),
                "clients_dropped": len(datasets) - len(teachers),
            },
        }
        return RoundOutput(CountedState(after, np.int64(round_num)), metrics)

    def get_model_weights(self, state: CountedState) -> tff.learning.models.ModelWeights:
        """The server's weights."""
        return self._process.get_model_weights(state.process)

    def _learn(self, teachers: Sequence[Sequence[tf.Tensor]], batch: np.ndarray) -> _Step:
        """One step of SGD on one batch [messages, time + 1] int32."""
        # The mean is made batch by batch: of one, [tokens, vocabulary] is some megabytes.
        soft_labels = tf.zeros([])
        for weights in teachers:
            _assign(self._teacher, weights)  # shares the tensors' memory, copies nothing
            soft_labels += self._predict(batch)
        loss = self._step(batch, soft_labels / len(teachers))
        return _Step(float(loss), int(np.count_nonzero(batch[:, 1:] != PAD)))

    def _probabilities(self, batch: tf.Tensor) -> tf.Tensor:
        """The teacher's [n, vocabulary] at every target, packed as the student's."""
        logits, _ = self._teacher.score(batch[:, :-1], batch[:, 1:])
        return tf.nn.softmax(logits)

    def _train_on_batch(self, batch: tf.Tensor, soft_labels: tf.Tensor) -> tf.Tensor:
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
        # Plain SGD has no state beside its learning rate, so none is kept from step to step.
        optimizer_state = self._optimizer.initialize(
            [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
        )
        _, weights = self._optimizer.next(
            optimizer_state, [tf.convert_to_tensor(variable) for variable in variables], gradients
        )
        for variable, weight in zip(variables, weights, strict=True):
            variable.assign(weight)
        return tf.reduce_sum(tf.cast(losses, tf.float64))


def one_client_config(config: RunConfig) -> RunConfig:
    """`config` for the process that trains one client and takes its model as it is.

    A client weighs its tokens, so that one without any has no usable model.
    """
    return dataclasses.replace(
        config,
        server=FedAvgServer(learning_rate=1.0),
        aggregation=AggregationConfig(rule=Mean(), client_weighting="tokens"),
        fine_tuning=dataclasses.replace(config.fine_tuning, server=Averaging()),
    )


def build_server_transfer(
    process: RoundProcess,
    config: RunConfig,
    initial_model: NextWordModel,
    general_store: ClientStore | None,
) -> ServerTransferProcess:
    """The process of `fine_tuning.server.name` = "transfer"; warns that it is a simulation.

    `process` is that of `one_client_config(config)`, aggregating by a mean that is NaN for a client
    of weight 0 (`tff.aggregators.MeanFactory()`), so that the finalizer rejects it. The sections
    `[server]` and `[aggregation]` of `config` have no effect. Raises `ValueError` if there is no
    general text, or its vocabulary has another size than the model's.
    """
    if general_store is not None and len(general_store.vocabulary) != initial_model.vocabulary_size:
        raise ValueError(
            f"`fine_tuning.general_store`: {general_store.directory} has a vocabulary of "
            f"{len(general_store.vocabulary)} rows, the model {initial_model.vocabulary_size}. "
            "Prepare it with `data.vocabulary_path` set to the model's vocabulary.txt."
        )
    transfer = config.fine_tuning.server
    assert isinstance(transfer, Transfer)
    warnings.warn(SIMULATION_ONLY, stacklevel=2)
    return ServerTransferProcess(
        process,
        initial_model,
        build_transfer_text(config, general_store),
        learning_rate=transfer.learning_rate,
        clip_norm=transfer.clip_norm,
    )


def _assign(model: NextWordModel, weights: Sequence[Any]) -> None:
    for variable, weight in zip(model.trainable_variables, weights, strict=True):
        variable.assign(weight)


def _is_finite(weights: Sequence[Any]) -> bool:
    return all(np.isfinite(weight).all() for weight in weights)


def _mean_loss(steps: Sequence[_Step]) -> float:
    tokens = sum(step.tokens for step in steps)
    return sum(step.loss for step in steps) / tokens if tokens else math.nan
