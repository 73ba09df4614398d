"""Learning without forgetting: clients also keep to what the model they received would predict.

    loss = lambda CE(true word) + (1 - lambda) CE(predictions of the received model)

as means over a batch's tokens. The received global model stays what it is during the client's local
training; only its copy is trained. Source: Popov et al. 2018, eqs. 1-2,
https://arxiv.org/abs/1712.07473, after Li and Hoiem 2016, https://arxiv.org/abs/1606.09282.

It is a model, not a training loop: the teacher takes its weights at the first training batch, when
the variables still are what the server sent. So any client work trains with it: TFF's own, FedMed's
scored one, the attack harness's. The teacher costs a second forward pass and no communication.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tff_keyboard.federated.learning.variable_model import NextWordVariableModel, TrainingStep
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.distillation_loss import soft_softmax_loss


class LwfVariableModel(NextWordVariableModel):
    """A `NextWordVariableModel` whose training loss is that of learning without forgetting.

    `forward_pass(training=False)` has the ordinary loss. Metrics are the ordinary ones in both.
    `model` is freshly built, and no other process may share its variables; `teacher` is another
    one, of the same architecture, whose weights are overwritten; `true_label_weight` is lambda, in
    [0, 1].
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
    """A batch's losses by eqs. 1-2, differentiable in the model's variables alone.

    `ids` are [batch, time] int32 and `targets` what follows them, PAD on the right;
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
    """A function that builds the TFF model anew at each call, its weights zeros."""

    def model_fn() -> LwfVariableModel:
        model, teacher = (
            build_model(name, vocabulary_size=vocabulary_size, seed=None, **options)
            for _ in range(2)
        )
        return LwfVariableModel(
            model, teacher, true_label_weight=true_label_weight, weight_unit=weight_unit
        )

    return model_fn
