"""The server learns from its clients' predictions instead of averaging their weights.

    L = - sum_x sum_w [ 1/K sum_k p_k(w|x) ] log p(w|x)

p_k are the K models that clients trained from the server's model, p is the server's, and x are the
contexts of a text that the server has or generates (`transfer_text.py`). Source: Popov et al. 2018,
section 2.3, eq. 4, https://arxiv.org/abs/1712.07473.
"""

import copy
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms.fine_tuning.transfer_text import TransferText, build_transfer_text
from tff_keyboard.algorithms.optimizers.local_sgd import ClippedOptimizer
from tff_keyboard.algorithms.round_process import CountedState, RoundOutput, RoundProcess
from tff_keyboard.config.sections.fine_tuning_config import Transfer
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.distillation_loss import soft_softmax_loss

SIMULATION_ONLY = (
    "`fine_tuning.server.type` = 'transfer' is a simulation only: the server sees every client's "
    "own model, which secure aggregation would hide, and there is no bound on what it reveals."
)


class _Step(NamedTuple):
    loss: float  # summed over tokens, in nats
    tokens: int


class ServerTransferProcess:
    """Trains clients as in FedAvg, and the server on their average predictions.

    A `RoundProcess`. The clients are trained by `process`, one at a time. On a given machine, a
    round is a pure function of its arguments.

    Args:
      process: FedAvg whose server takes the model of one client unchanged. Its finalizer reports
        `update_non_finite` = 1 if the client had no usable model.
      model: Defines the architecture. Neither its weights nor the instance are used.
      text: Text of a round (`transfer_text.build_transfer_text`).
      learning_rate: Rate of the server's SGD. The loss is the mean over a batch's tokens, in nats.
      clip_norm: Bound on the L2 norm of the server's gradients; 0 means none.
    """

    wants_each_model = True

    def __init__(
        self,
        process: RoundProcess,
        model: NextWordModel,
        text: TransferText,
        *,
        learning_rate: float,
        clip_norm: float,
    ):
        self.process = process
        self._text = text
        name, options = model.name_in_registry, model.options
        size, seed = model.vocabulary_size, 0  # its weights are replaced before use
        self._student, self._teacher = (
            build_model(name, vocabulary_size=size, seed=seed, **options) for _ in range(2)
        )
        self._optimizer = tff.learning.optimizers.build_sgdm(learning_rate)
        if clip_norm:
            self._optimizer = ClippedOptimizer(self._optimizer, clip_norm)
        batch = tf.TensorSpec([None, None], tf.int32)
        soft_labels = tf.TensorSpec([None, model.vocabulary_size], tf.float32)
        self._predict = tf.function(self._probabilities, input_signature=[batch], autograph=False)
        self._step = tf.function(
            self._train_on_batch, input_signature=[batch, soft_labels], autograph=False
        )

    def around(self, process: RoundProcess) -> "ServerTransferProcess":
        """Returns this process around another form of the same `process`, with the same states."""
        other = copy.copy(self)
        other.process = process
        return other

    def initialize(self) -> CountedState:
        """Returns the initial weights, after 0 rounds."""
        return CountedState(self.process.initialize(), np.int64(0))

    def next(self, state: CountedState, datasets: Sequence[Any]) -> RoundOutput:
        """Computes one round.

        Args:
          state: State before the round.
          datasets: One per client, as `process` takes them.

        Returns:
          The new state and metrics. `client_work` of all clients is summed.
          `finalizer/update_non_finite` is 1 if no client had a usable model or the new model of the
          server is not finite; the weights are then the old ones. Of the server's training:
          `transfer/soft_loss_first`, `transfer/soft_loss_last` (eq. 4 in nats per token, over the
          first and the last tenth of its steps; NaN without steps), `transfer/messages`,
          `transfer/tokens` (over all epochs), `transfer/clients` (K) and `transfer/clients_dropped`
          (without a usable model).
        """
        round_num = int(state.rounds) + 1
        # A round with an empty cohort is also computed. Its metrics are zeros.
        cohort = [[dataset] for dataset in datasets] or [[]]
        client_work, teachers = [], []
        for one_client in cohort:
            output = self.process.next(state.process, one_client)
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
        """Returns the server's weights."""
        return self.process.get_model_weights(state.process)

    def _learn(self, teachers: Sequence[Sequence[tf.Tensor]], batch: np.ndarray) -> _Step:
        """Takes one step of SGD on one batch [messages, time + 1] int32."""
        # The mean is computed per batch, because [tokens, vocabulary] of one batch is some
        # megabytes.
        soft_labels = tf.zeros([])
        for weights in teachers:
            _assign(self._teacher, weights)  # shares the tensors' memory, copies nothing
            soft_labels += self._predict(batch)
        loss = self._step(batch, soft_labels / len(teachers))
        return _Step(float(loss), int(np.count_nonzero(batch[:, 1:] != PAD)))

    def _probabilities(self, batch: tf.Tensor) -> tf.Tensor:
        """Returns the teacher's [n, vocabulary] at every target, packed like the student's."""
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
        # The only state of plain SGD is its learning rate, so no state is kept between steps.
        optimizer_state = self._optimizer.initialize(
            [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
        )
        _, weights = self._optimizer.next(
            optimizer_state, [tf.convert_to_tensor(variable) for variable in variables], gradients
        )
        for variable, weight in zip(variables, weights, strict=True):
            variable.assign(weight)
        return tf.reduce_sum(tf.cast(losses, tf.float64))


def build_server_transfer(
    process: RoundProcess,
    transfer: Transfer,
    initial_model: NextWordModel,
    general_store: ClientStore | None,
    *,
    max_length: int,
    seed: int,
) -> ServerTransferProcess:
    """Builds the process of `fine_tuning.server.type` = "transfer"; warns that it is a simulation.

    Args:
      process: FedAvg over one client that takes the client's model as it is (server learning rate
        1), aggregating by a mean that is NaN for a client of weight 0
        (`tff.aggregators.MeanFactory()`), so that the finalizer rejects it.
      transfer: The table `[fine_tuning.server]`.
      initial_model: The model before the first round.
      general_store: Store of general text; needed if `transfer.text` is "general".
      max_length: Largest number of words of a message.
      seed: Seed of the run.

    Raises:
      ValueError: There is no general text, or its vocabulary has another size than the model's.
    """
    if general_store is not None and len(general_store.vocabulary) != initial_model.vocabulary_size:
        raise ValueError(
            f"`fine_tuning.general_store`: {general_store.directory} has a vocabulary of "
            f"{len(general_store.vocabulary)} rows, the model {initial_model.vocabulary_size}. "
            "Prepare it with `data.vocabulary_path` set to the model's vocabulary.txt."
        )
    warnings.warn(SIMULATION_ONLY, stacklevel=2)
    return ServerTransferProcess(
        process,
        initial_model,
        build_transfer_text(transfer, general_store, max_length=max_length, seed=seed),
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
