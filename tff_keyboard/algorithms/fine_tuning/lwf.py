"""Learning without forgetting: clients also learn the predictions of the model they received.

    loss = lambda CE(true word) + (1 - lambda) CE(predictions of the received model)

as means over a batch's tokens. The received global model does not change during local training;
only its copy is trained. Source: Popov et al. 2018, eqs. 1-2, https://arxiv.org/abs/1712.07473,
after Li and Hoiem 2016, https://arxiv.org/abs/1606.09282.

It is a model and not a training loop: the teacher takes its weights at the first training batch,
when the variables still are equal to the server's. Any client work can therefore train with it:
TFF's own, FedMed's scored work, and attack simulations. The teacher costs a second forward pass and
no communication.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tff_keyboard.algorithms.variable_model import NextWordVariableModel, TrainingStep
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.distillation_loss import soft_softmax_loss


class LwfVariableModel(NextWordVariableModel):
    """A `NextWordVariableModel` with the training loss of learning without forgetting.

    `forward_pass(training=False)` has the ordinary loss. Metrics are ordinary in both cases.
    `model` is new, and no other process may share its variables. `teacher` is another model of the
    same architecture; its weights are overwritten. `true_label_weight` is lambda, in [0, 1].
    """

    def __init__(
        self,
        model: NextWordModel,
        teacher: NextWordModel,
        *,
        true_label_weight: float,
        weight_unit: str,
    ):
        if not 0 <= true_label_weight <= 1:
            raise ValueError(f"`true_label_weight` must be in [0, 1], got {true_label_weight}.")
        super().__init__(model, weight_unit=weight_unit, evaluation=False)
        self._teacher = teacher
        self._true_label_weight = true_label_weight
        self._has_teacher = tf.Variable(False, trainable=False, name="has_teacher")

    def _training_step(self, ids, targets, training) -> TrainingStep:
        if not training:
            return super()._training_step(ids, targets, training)
        received = tf.cond(self._has_teacher, lambda: True, self._take_received_weights)
        with tf.control_dependencies([received]):
            return training_step(self._model, self._teacher, ids, targets, self._true_label_weight)

    def _take_received_weights(self) -> tf.Tensor:
        for mine, received in zip(self._teacher.variables, self._model.variables, strict=True):
            mine.assign(received)
        return tf.identity(self._has_teacher.assign(True))


def training_step(
    model: NextWordModel,
    teacher: NextWordModel,
    ids: tf.Tensor,
    targets: tf.Tensor,
    true_label_weight: float,
) -> TrainingStep:
    """Returns a batch's losses by eqs. 1-2, differentiable in the model's variables only.

    `ids` are [batch, time] int32, `targets` are the next ids, with PAD on the right, and
    `true_label_weight` is lambda, in [0, 1].
    """
    teacher_logits, _ = teacher.score(ids, targets)
    soft_labels = tf.stop_gradient(tf.nn.softmax(teacher_logits))
    hidden, table, bias, words = model.packed_hidden_at_targets(ids, targets, True)
    losses, true_losses, is_best = soft_softmax_loss(
        hidden, table, bias, words, soft_labels, true_label_weight
    )
    return TrainingStep(losses, true_losses, is_best, words)


def build_lwf_model_fn(
    name: str,
    *,
    vocabulary_size: int,
    options: Mapping[str, Any],
    true_label_weight: float,
    weight_unit: str = "tokens",
) -> Callable[[], LwfVariableModel]:
    """Returns a function that builds a new TFF model at each call, with weights of zero."""

    def model_fn() -> LwfVariableModel:
        model, teacher = (
            build_model(name, vocabulary_size=vocabulary_size, seed=None, **options)
            for _ in range(2)
        )
        return LwfVariableModel(
            model, teacher, true_label_weight=true_label_weight, weight_unit=weight_unit
        )

    return model_fn
