"""A `NextWordModel` in the interface of TFF's learning processes: loss, sums, new variables.

The loss is computed only at positions with a real target. Metrics are plain sums (float64 nats,
int64 counts): TFF adds the clients' sums up, and `evaluation/statistics/sums.py` computes the
ratios on the host. Finalizers therefore return the sums unchanged.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.data.batches import ELEMENT_SPEC
from tff_keyboard.evaluation.counts import tensorflow_sums
from tff_keyboard.models import NextWordModel, build_model
from tff_keyboard.models.softmax_loss import softmax_loss

# Sums of training, before each step. `argmax_hits` masks nothing, like TFF's own accuracy.
TRAINING_SUM_DTYPES: dict[str, tf.DType] = {
    "examples": tf.int64,
    "tokens": tf.int64,
    "nll": tf.float64,
    "argmax_hits": tf.int64,
}


class TrainingStep(NamedTuple):
    """Results of a batch in training, [n] each, packed."""

    losses: tf.Tensor  # the training loss, in nats
    true_losses: tf.Tensor  # -log p of the true word, in nats
    is_best: tf.Tensor  # 1 if no id has a higher logit than the true word, else 0
    targets: tf.Tensor


WEIGHT_UNITS = ("tokens", "examples")


class NextWordVariableModel(tff.learning.models.VariableModel):
    """A `tff.learning.models.VariableModel` over a next-word model.

    Batches are `OrderedDict(x, y)`, both int32 [batch, time], PAD on the right; `y` are the next
    ids of `x`. The loss is the mean of -log p over real targets, in nats, and 0 without targets.

    Args:
      model: A new model. No other process may share its variables.
      weight_unit: Unit of `num_examples`, a client's weight in TFF: real targets ("tokens") or
        messages ("examples").
      evaluation: Whether the sums are the full set of `tensorflow_sums.SUM_DTYPES` instead of the
        cheap ones of `TRAINING_SUM_DTYPES`.
      shares_first_step: Whether the first step of many clients may be computed at once
        (`models/first_step.py`), if the model and the loss allow it.
    """

    def __init__(
        self,
        model: NextWordModel,
        *,
        weight_unit: str,
        evaluation: bool,
        shares_first_step: bool = True,
    ):
        if weight_unit not in WEIGHT_UNITS:
            raise ValueError(f"`weight_unit` must be one of {WEIGHT_UNITS}, got {weight_unit!r}.")
        self._model = model
        self._weight_unit = weight_unit
        self._evaluation = evaluation
        has_model_loss = type(self)._training_step is NextWordVariableModel._training_step
        self.shares_first_step = (
            shares_first_step and has_model_loss and not evaluation and model.shares_first_step
        )
        dtypes = tensorflow_sums.SUM_DTYPES if evaluation else TRAINING_SUM_DTYPES
        self._sums = collections.OrderedDict(
            (name, tf.Variable(tf.zeros([], dtype), trainable=False, name=name))
            for name, dtype in dtypes.items()
        )

    @property
    def trainable_variables(self):
        return self._model.trainable_variables

    @property
    def non_trainable_variables(self):
        return self._model.non_trainable_variables

    @property
    def local_variables(self):
        return list(self._sums.values())

    @property
    def input_spec(self):
        return ELEMENT_SPEC

    @tf.function(autograph=False)
    def predict_on_batch(self, x, training=True):
        return self._model(x, training=training)

    # The function has no loop over tensors; a search for one takes a tenth of a second per model.
    @tf.autograph.experimental.do_not_convert
    def forward_pass(self, batch_input, training=True):
        ids, targets = batch_input["x"], batch_input["y"]
        num_examples = tf.shape(ids, out_type=tf.int64)[0]
        if self._evaluation:
            logits, targets = self._model.score(ids, targets)
            losses = tensorflow_sums.losses_of(logits, targets)
            sums = tensorflow_sums.batch_sums(logits, losses, targets, num_examples)
        else:
            step = self._training_step(ids, targets, training)
            losses = step.losses
            sums = _training_sums(step.true_losses, step.is_best, num_examples)
        return self._count(losses, sums)

    def _count(self, losses, sums) -> tff.learning.models.BatchOutput:
        """Adds the sums of a batch to the metrics, and returns TFF's output of the batch."""
        num_tokens, num_examples = sums["tokens"], sums["examples"]
        loss = tf.math.divide_no_nan(tf.reduce_sum(losses), tf.cast(num_tokens, tf.float32))
        for name, variable in self._sums.items():
            variable.assign_add(sums[name])
        return tff.learning.models.BatchOutput(
            loss=loss,
            predictions=None,
            num_examples=num_tokens if self._weight_unit == "tokens" else num_examples,
        )

    def first_step_factors(self, weights, batch):
        """See `models/first_step.py`."""
        return self._model.first_step_factors(weights, batch)

    @tf.autograph.experimental.do_not_convert
    def first_step(self, factors, num_examples):
        """Returns the gradients of a first batch, their `is_bounded` and `BatchOutput`.

        Adds to the sums of the metrics.

        Args:
          factors: The client's part of `first_step_factors`.
          num_examples: Rows of the batch, int64.
        """
        step = self._model.first_step(factors)
        sums = _training_sums(step.losses, step.is_best, num_examples)
        return step.gradients, step.is_bounded, self._count(step.losses, sums)

    def _training_step(self, ids, targets, training) -> TrainingStep:
        hidden, table, bias, targets = self._model.packed_hidden_at_targets(ids, targets, training)
        losses, is_best = softmax_loss(hidden, table, bias, targets)
        return TrainingStep(losses, losses, is_best, targets)

    @tf.function(autograph=False)
    def report_local_unfinalized_metrics(self):
        return collections.OrderedDict((n, v.read_value()) for n, v in self._sums.items())

    def metric_finalizers(self):
        return collections.OrderedDict((name, tf.function(lambda x: x)) for name in self._sums)

    @tf.function(autograph=False)
    def reset_metrics(self):
        for variable in self._sums.values():
            variable.assign(tf.zeros_like(variable))


def _training_sums(true_losses, is_best, num_examples):
    """Returns the training metrics of a batch, given the true words' losses [n] and hits [n]."""
    return {
        "examples": num_examples,
        "tokens": tf.size(true_losses, tf.int64),
        "nll": tf.reduce_sum(tf.cast(true_losses, tf.float64)),
        "argmax_hits": tf.math.count_nonzero(is_best),
    }


def build_model_fn(
    name: str,
    *,
    vocabulary_size: int,
    seed: int | None,
    weight_unit: str = "tokens",
    evaluation: bool = False,
    shares_first_step: bool = True,
    **options: Any,
) -> Callable[[], NextWordVariableModel]:
    """Returns a function that builds the TFF model with the same initial weights at each call.

        model_fn = tk.models.build_model_fn("cifg", vocabulary_size=10_000, seed=1, units=32)
        process = tff.learning.algorithms.build_weighted_fed_avg(
            model_fn, client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.5)
        )

    Args:
      name: A key of `models.MODELS`.
      vocabulary_size: Rows of the output table, including special ids.
      seed: Seed of the initial weights; None for zeros, if a process gets its weights separately.
      weight_unit: "tokens" or "examples": the weight of a client in TFF.
      evaluation: Whether it reports the sums of evaluation; see `NextWordVariableModel`.
      shares_first_step: Whether the first step of many clients may be computed at once; see
        `NextWordVariableModel`. The results differ in the last bits.
      **options: Options of the model, such as "units"; see its class.
    """

    def model_fn() -> NextWordVariableModel:
        model = build_model(name, vocabulary_size=vocabulary_size, seed=seed, **options)
        return NextWordVariableModel(
            model,
            weight_unit=weight_unit,
            evaluation=evaluation,
            shares_first_step=shares_first_step,
        )

    return model_fn
