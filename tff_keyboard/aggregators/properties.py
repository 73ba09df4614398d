"""Properties of every aggregator, independent of its formula: a test battery for new aggregators.

    for name, problem in problems_of(UpdateGuard(MyRule())).items():
        print(name, problem or "holds")

Rounds run in TFF's current context. `tk.aggregators.check_rule` (`algorithms/rule_check.py`) runs
the same checks in this process. Test the formula of an aggregator separately, against NumPy.
"""

import collections
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.guards.update_guard import UpdateGuardFactory
from tff_keyboard.aggregators.layers import require_factory

SHAPES = ((3, 2), (4,), ())  # a matrix, a vector, a scalar
VALUE_TYPE = tff.to_type([tff.TensorType(np.float32, shape) for shape in SHAPES])
WEIGHT_TYPE: tff.Type = tff.TensorType(np.float32)
CLIENTS = 5

Delta = list[np.ndarray]


class AggregatorUnderTest:
    """An aggregation process under test.

    Attributes:
      atol: Largest change of an update by the process (rounding, noise), in units of an update.
      is_private: Whether weights are ignored, and an update is divided by the report goal.
      is_guarded: Whether the process measures the number of rejected updates.
    """

    weight_type: tff.Type = WEIGHT_TYPE
    atol = 1e-6
    is_private = is_noisy = False
    is_guarded = True

    @functools.cached_property
    def bare(self) -> Any:
        """The process as a TFF object."""
        raise NotImplementedError

    @functools.cached_property
    def process(self) -> Any:
        """The process as in a training, with noise in its rounds if it is private."""
        return self.bare

    @functools.cached_property
    def in_parts(self) -> Any:
        """The same process with clients distributed over two workers; only `next`."""
        return _InTwoParts(tff.backends.native.compile_to_mergeable_comp_form(self.bare.next))

    def weigh(self, examples: float, loss: float, divergence: Any) -> Any:
        """Returns the weight of a client. Aggregators with structured weights use all arguments."""
        return np.float32(examples)

    @property
    def no_weight(self) -> Any:
        return self.weigh(0, 0, np.zeros(len(SHAPES)))

    def cohort(self, clients: int = CLIENTS) -> tuple[list[Delta], list[Any]]:
        """Returns updates inside all clip norms, and weights."""
        rng, sizes = np.random.default_rng(clients), np.random.default_rng(7)
        weights = [
            self.weigh(1 + k, loss, rng.uniform(0, 0.6, len(SHAPES)))
            for k, loss in enumerate(rng.uniform(1, 5, clients))
        ]
        deltas = [
            [(0.05 * sizes.normal(size=shape)).astype(np.float32) for shape in SHAPES]
            for _ in range(clients)
        ]
        return deltas, weights

    def run(self, values: Sequence[Delta], weights: Sequence[Any], state: Any = None) -> Any:
        """Runs a round from `state`, or from the initial state."""
        state = self.process.initialize() if state is None else state
        return self.process.next(state, list(values), list(weights))


def the_types_are_right(subject: AggregatorUnderTest) -> None:
    """Checks the types. Measurements must be scalars on the server, one column of metrics each."""
    signature = subject.bare.next.type_signature
    state = subject.bare.initialize.type_signature.result
    types = [state, *(tff.FederatedType(t, tff.CLIENTS) for t in (VALUE_TYPE, subject.weight_type))]
    _require(state.placement is tff.SERVER, "the state is not on the server")
    for position, expected in enumerate(types):
        _require(
            signature.parameter[position] == expected, f"argument {position} is not {expected}"
        )
    _require(signature.result.state == state, "the state changes its type")
    result = tff.FederatedType(VALUE_TYPE, tff.SERVER)
    _require(signature.result.result == result, "the result is not an update on the server")
    measurements = signature.result.measurements
    _require(measurements.placement is tff.SERVER, "measurements are not on the server")
    for leaf in tff.structure.flatten(measurements.member):
        is_scalar = isinstance(leaf, tff.TensorType) and leaf.shape == ()
        _require(is_scalar and not tf.as_dtype(leaf.dtype).is_complex, "a measurement is not real")


def a_round_without_clients_returns_zeros(subject: AggregatorUnderTest) -> None:
    """Checks an empty round, and that the next round is normal."""
    output = subject.run([], [])
    zeros = [np.zeros(shape) for shape in SHAPES]
    _require_close(output.result, zeros, atol=subject.atol * subject.is_noisy)
    _require_finite(_plain(output.measurements).values(), "a measurement")
    again = subject.run(*subject.cohort(), output.state)
    _require_finite(again.result, "the next result")
    _require(all(np.any(x) for x in again.result), "the next round gives zeros")


def the_result_of_one_client_is_its_update(subject: AggregatorUnderTest) -> None:
    """Checks a cohort of one. A private sum must only have the direction of the update."""
    values, weights = subject.cohort(1)
    output = subject.run(values, weights)
    if not subject.is_private:
        _require_close(output.result, values[0], rtol=1e-5, atol=subject.atol)
        return
    got, sent = (np.concatenate([np.ravel(x) for x in v]) for v in (output.result, values[0]))
    _require(got @ sent > 0, "the result points away from the update")
    longest = np.linalg.norm(sent) * (1 + 1e-5) + subject.atol
    _require(bool(np.linalg.norm(got) <= longest), "the result is longer than the update")


def the_result_of_equal_updates_is_that_update(subject: AggregatorUnderTest) -> None:
    values, _ = subject.cohort(1)
    weight = subject.weigh(3, 2.0, np.full(len(SHAPES), 0.1))
    output = subject.run(values * CLIENTS, [weight] * CLIENTS)
    _require_close(output.result, values[0], rtol=1e-5, atol=subject.atol)


def the_order_of_clients_does_not_matter(subject: AggregatorUnderTest) -> None:
    values, weights = subject.cohort()
    order = [2, 0, 4, 1, 3]
    output = subject.run(values, weights)
    shuffled = subject.run([values[k] for k in order], [weights[k] for k in order])
    _require_close(shuffled.result, output.result, rtol=1e-5, atol=1e-7)
    _require_same(shuffled.measurements, output.measurements, rtol=1e-5, atol=1e-6)


def a_client_that_sends_nan_is_ignored(subject: AggregatorUnderTest) -> None:
    """Checks NaN and infinity: the client then counts like one with update and weight zero."""
    values, weights = subject.cohort()
    nothing = [np.zeros_like(x) for x in values[2]]
    silent_weights = [*weights[:2], subject.no_weight, *weights[3:]]
    silent = subject.run([*values[:2], nothing, *values[3:]], silent_weights)
    for poison in (np.nan, np.inf):
        broken = [np.array(x) for x in values[2]]
        broken[1].flat[0] = poison
        output = subject.run([*values[:2], broken, *values[3:]], weights)
        _require_finite(output.result, "the result")
        _require_close(output.result, silent.result)
        if subject.is_guarded:
            refused = [int(one.measurements["refused_non_finite"]) for one in (output, silent)]
            _require(refused == [1, 0], f"{refused} updates were refused, not [1, 0]")


def a_client_with_weight_zero_is_ignored(subject: AggregatorUnderTest) -> None:
    """Checks a client with weight 0. Private sums ignore weights, because counts are private."""
    values, weights = subject.cohort()
    output = subject.run(values, [*weights[:2], subject.no_weight, *weights[3:]])
    if not subject.is_private:
        values, weights = ([*items[:2], *items[3:]] for items in (values, weights))
    _require_close(output.result, subject.run(values, weights).result, rtol=1e-6, atol=1e-7)
    for name, value in _plain(output.measurements).items():
        if name.split("/")[-1] == "clients":  # the number of clients with a weight
            _require(value == CLIENTS - 1, f"`{name}` counts {value} clients of {CLIENTS - 1}")


def two_workers_compute_the_same_result(subject: AggregatorUnderTest) -> None:
    """Checks that several workers or machines compute the same result as one."""
    values, weights = subject.cohort()
    merged = subject.in_parts.next(subject.process.initialize(), values, weights)
    output = subject.run(values, weights)
    _require_close(merged.result, output.result, rtol=1e-5, atol=1e-6)
    _require_same(merged.measurements, output.measurements, rtol=1e-5, atol=1e-6)


def a_resumed_process_repeats_its_results(subject: AggregatorUnderTest) -> None:
    """Continues from a copy of the state in plain arrays, as in a checkpoint."""
    values, weights = subject.cohort()
    state = subject.run(values, weights).state
    straight = subject.run(values, weights, state)
    saved = tf.nest.map_structure(lambda x: np.array(x, copy=True), state)
    resumed = subject.run(values, weights, saved)
    _require_close(resumed.result, straight.result)
    _require_same(resumed.measurements, straight.measurements)
    _require_close(tf.nest.flatten(resumed.state), tf.nest.flatten(straight.state), what="state")


PROPERTIES = (
    the_types_are_right,
    a_round_without_clients_returns_zeros,
    the_result_of_one_client_is_its_update,
    the_result_of_equal_updates_is_that_update,
    the_order_of_clients_does_not_matter,
    a_client_that_sends_nan_is_ignored,
    a_client_with_weight_zero_is_ignored,
    two_workers_compute_the_same_result,
    a_resumed_process_repeats_its_results,
)


class _Rule(AggregatorUnderTest):
    """The aggregator under test, bare and inside `UpdateGuard`, with its processes built once."""

    def __init__(self, factory: tff.aggregators.WeightedAggregationFactory, atol: float):
        self._factory = factory
        self.atol = atol
        self.is_guarded = isinstance(factory, UpdateGuardFactory)

    @functools.cached_property
    def bare(self) -> Any:
        return self._factory.create(VALUE_TYPE, WEIGHT_TYPE)


def problems_of(
    factory: tff.aggregators.WeightedAggregationFactory, *, atol: float = 1e-6
) -> dict[str, str]:
    """Checks `PROPERTIES` in TFF's current context.

    Arguments and result are those of `tk.aggregators.check_rule`.
    """
    require_factory(factory, "factory")
    subject, problems = _Rule(factory, atol), {}
    _ = subject.bare  # raises the caller's error if there is no process
    for check in PROPERTIES:
        try:
            check(subject)
            problem = ""
        except AssertionError as error:
            problem = str(error)
        except Exception as error:  # any error of TFF or of the aggregator
            problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        problems[check.__name__.replace("_", " ")] = problem
    return problems


class _InTwoParts:
    """A process whose rounds are merged from two parts."""

    def __init__(self, form: Any):
        self._form = form

    def next(self, state: Any, values: Any, weights: Any) -> Any:
        """Runs a round in which the sums of two groups of clients are merged."""
        halves = [(values[part], weights[part]) for part in (slice(0, 2), slice(2, None))]
        parts = [self._form.up_to_merge(state, *half) for half in halves]
        return self._form.after_merge((state, values, weights), self._form.merge(*parts))


def _plain(measurements: Any, name: str = "") -> dict[str, Any]:
    """Flattens nested measurements to {"a/b": number}."""
    if not isinstance(measurements, collections.abc.Mapping):
        return {name: measurements}
    flat: dict[str, Any] = {}
    for key, value in measurements.items():
        flat |= _plain(value, f"{name}/{key}" if name else key)
    return flat


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise AssertionError(problem)


def _require_finite(values: Any, what: str) -> None:
    _require(all(np.all(np.isfinite(value)) for value in values), f"{what} is not finite")


def _require_close(
    got: Any, expected: Any, *, rtol: float = 0.0, atol: float = 0.0, what: str = "result"
) -> None:
    """Raises unless the arrays are close; without tolerances, unless they have the same bits."""
    _require(len(got) == len(expected), f"the {what} has {len(got)} parts, not {len(expected)}")
    for number, (x, y) in enumerate(zip(got, expected, strict=True)):
        label = f"tensor {number} of the {what}"
        _require(np.shape(x) == np.shape(y), f"{label} has shape {np.shape(x)}, not {np.shape(y)}")
        if not np.array_equal(x, y) and not np.allclose(x, y, rtol, atol):
            _require_finite([x], label)
            worst = np.max(np.abs(np.subtract(x, y, dtype=np.float64)))
            raise AssertionError(f"{label} is off by {worst:.2g}")


def _require_same(got: Any, expected: Any, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    first, second = _plain(got), _plain(expected)
    _require(first.keys() == second.keys(), "the measurements have different names")
    for name, value in first.items():
        _require_close([value], [second[name]], rtol=rtol, atol=atol, what=f"measurement `{name}`")
