"""The aggregator "mean"."""

import dataclasses
from typing import Any, ClassVar, Literal

from tff_keyboard.parts import calls
from tff_keyboard.parts.aggregator import Aggregator, AggregatorRun

# Fields of `[aggregation.privacy]` for the ledger and the noise key, not for the aggregator
_OF_RUNS = ("delta", "noise_secret", "fixed_nonce")
_PRIVATE_MEAN = "tff_keyboard.aggregators.private.private_mean:PrivateMeanFactory"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanConfig(Aggregator):
    """The weighted mean of updates.

    With `[aggregation.privacy]`, the mean of clipped updates with noise.
    """

    averages: ClassVar[bool] = True
    is_mean: ClassVar[bool] = True

    type: Literal["mean"] = "mean"

    def build(self, run: AggregatorRun) -> Any:
        """See base class."""
        import tensorflow_federated as tff

        if run.privacy is None:
            return tff.aggregators.MeanFactory(no_nan_division=True)
        options = run.privacy.arguments()
        return calls.load(_PRIVATE_MEAN)(
            mechanism=run.privacy.type,
            **{name: value for name, value in options.items() if name not in _OF_RUNS},
            clients_per_round=run.clients_per_round,
            draws_noise=False,
            takes_sums=run.takes_sums,
        )
