"""The aggregator "multi_krum": the mean of the updates that lie closest to their neighbours.

Of the M updates of a round, at most f come from attackers. The score of client i is the sum of its
squared distances to its M - f - 2 closest clients:

    s(i) = sum_{i -> j} ||delta_i - delta_j||^2
    result = mean of the m updates with the lowest scores,  m = M - f - 2 if it is not set

With m = 1 this is Krum. If several clients have the m-th lowest score, all of them count, so that
the order of clients has no effect. (The paper takes the lowest identifier. With M = 3, the two
closest clients always have equal scores.) A round with M < 2 f + 3 clients tolerates only
(M - 3) // 2 attackers.

Source: Blanchard et al. 2017, sections 4 and 5, https://arxiv.org/abs/1703.02757.
"""

import collections
import dataclasses
import warnings
from typing import Any, ClassVar, Literal

from tff_keyboard.parts.aggregator import (
    Aggregator,
    AggregatorRun,
    CohortSettings,
    few_reports,
)
from tff_keyboard.storage.checks import FromOne, FromZero
from tff_keyboard.storage.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiKrumConfig(Aggregator):
    """Multi-Krum: the mean of the updates that lie closest to their neighbours (Blanchard 2017).

    All clients count equally. Measurements: `clients` and `selected_clients`.

    Attributes:
      max_attackers: Number of attackers in a round that it tolerates (f in the paper). The round
        needs at least 2 f + 3 clients. A random cohort often has more attackers than their average
        (docs/attacks.md).
      selected: Number of updates that are averaged (m in the paper), at most
        `train.clients_per_round` - f - 2, which is the meaning of 0. 1 is Krum.
    """

    privacy_problem: ClassVar[str] = "the choice of clients has no clipped sensitivity. Use 'mean'."
    secure_sum_problem: ClassVar[str] = "its scores need the distances of all clients"
    is_robust: ClassVar[bool] = True

    type: Literal["multi_krum"] = "multi_krum"
    max_attackers: FromOne = 1
    selected: FromZero = 0

    def check_cohort(self, train: CohortSettings, *, min_reports: int = 0) -> None:
        """See base class. Warns if dropouts leave too few clients."""
        smallest, clients = 2 * self.max_attackers + 3, train.clients_per_round
        if clients < smallest:
            raise ConfigError(
                f"`aggregation.rule.max_attackers` = {self.max_attackers} needs "
                f"`train.clients_per_round` >= {smallest}, got {clients}. Use larger cohorts, or "
                "expect fewer attackers."
            )
        if self.selected > clients - self.max_attackers - 2:
            raise ConfigError(
                f"`aggregation.rule.selected` must be <= {clients - self.max_attackers - 2}, the "
                f"clients of a round without {self.max_attackers} attackers and 2, got "
                f"{self.selected}."
            )
        reports, cause, way_out = few_reports(train, min_reports)
        if reports < smallest:
            warnings.warn(
                f"{cause} of {clients} clients, and `aggregation.rule.max_attackers` = "
                f"{self.max_attackers} needs {smallest}. {way_out}",
                stacklevel=2,
            )

    def build(self, run: AggregatorRun) -> Any:
        """See base class."""
        from tff_keyboard.aggregators.client_stack import StackFactory

        return StackFactory(self.combine, "Multi-Krum")

    def combine(self, stacked: Any) -> tuple[Any, Any]:
        """Returns the mean of the selected updates, and the measurements.

        Args:
          stacked: Updates of a round: tensors [clients, ...].
        """
        import tensorflow as tf

        from tff_keyboard.aggregators.client_stack import num_clients, rows_of

        clients = num_clients(stacked)
        attackers = tf.clip_by_value((clients - 3) // 2, 0, self.max_attackers)
        closest = tf.maximum(clients - attackers - 2, 0)
        rows = tf.concat([rows_of(x) for x in tf.nest.flatten(stacked)], axis=1)

        def score(row: Any) -> Any:
            distances = tf.reduce_sum(tf.square(rows - row), axis=1)
            return tf.reduce_sum(tf.sort(distances)[1 : closest + 1])  # the first is the client

        scores = tf.map_fn(score, rows)  # [clients]
        count = tf.maximum(closest, 1)
        if self.selected:
            count = tf.minimum(count, self.selected)
        highest = tf.reduce_max(tf.sort(scores)[:count])  # -inf without clients
        is_selected = scores <= highest
        divisor = tf.maximum(tf.math.count_nonzero(is_selected, dtype=tf.int32), 1)

        def mean(column: Any) -> Any:
            selected = tf.boolean_mask(column, is_selected)
            return tf.reduce_sum(selected / tf.cast(divisor, column.dtype), axis=0)

        measurements = collections.OrderedDict(
            clients=clients, selected_clients=tf.math.count_nonzero(is_selected, dtype=tf.int32)
        )
        return tf.nest.map_structure(mean, stacked), measurements
