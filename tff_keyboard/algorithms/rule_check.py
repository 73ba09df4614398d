"""Checks the properties of an aggregator in this process, without TFF's own server."""

import tensorflow_federated as tff

from tff_keyboard.aggregators import properties
from tff_keyboard.algorithms.client_packing.local_context import LocalContext


def check_rule(
    factory: tff.aggregators.WeightedAggregationFactory, *, atol: float = 1e-6
) -> dict[str, str]:
    """Checks the properties that all aggregators of this library have.

        aggregator = tk.aggregators.UpdateGuard(tk.aggregators.Median())
        problems = tk.aggregators.check_rule(aggregator)
        assert not any(problems.values()), problems

    Runs rounds with five small clients in this process, with any default context. A round that
    cannot run in this process is a problem, unless `local_context(allow_tff_server=True)` is the
    default context. To ignore clients that send NaN, an aggregator needs `UpdateGuard` around it.

    Args:
      factory: The aggregator, a kind of weighted mean: weights are numbers, and if all clients
        send the same update, the result is this update.
      atol: Largest error that the aggregator may add to an update, for example by quantisation.

    Returns:
      A dictionary from each property, as a phrase, to the problem that was found, or to "" if the
      aggregator has the property.
    """
    stack = tff.framework.get_context_stack()
    ours = stack.current if isinstance(stack.current, LocalContext) else LocalContext()
    with stack.install(ours):
        return properties.problems_of(factory, atol=atol)
