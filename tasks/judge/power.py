"""Says how many people a test needs to see a lift, from how much people differ in an evaluation.

tff-keyboard power runs/demo/evaluation_held_out.json --lift=top-3:0.5 --lift=perplexity:3
tff-keyboard power runs/comparison/comparison.json --lift=top-3:0.5,kss:0.5 --looks=4

An evaluation tells what an experiment takes, in which each half of the people has one of two
models. A comparison also tells what a replay takes, in which both models see the text of the same
people, the first model against each other one: what differs between people cancels there, so that
far fewer are needed.

A lift is METRIC:POINTS, or METRIC:PERCENT for a perplexity. With --looks the figures may be looked
at before the end without more error (O'Brien and Fleming's bounds). Several lifts are several
claims, each of which must hold at its share of the error (Holm).
"""

import dataclasses
import json
import pathlib
from typing import TYPE_CHECKING, Annotated

from ..options import Range, TaskOptions, Words
from tff_keyboard.storage.errors import DataError, UsageError

if TYPE_CHECKING:
    from tff_keyboard.evaluation.results.result import Evaluation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    results: Annotated[pathlib.Path, Words("a file of `evaluate` or `compare`, JSON")]
    lift: Annotated[tuple[str, ...], "METRIC:POINTS, such as top-3:0.5; may be repeated."] = ()
    power: Annotated[float, "Probability of seeing a lift that is there.", Range(0.1, 0.999)] = 0.8
    alpha: Annotated[
        float, "Probability of seeing a lift where there is none.", Range(0.0001, 0.5)
    ] = 0.05
    looks: Annotated[
        int, "How often the figures are looked at, the last time included.", Range(1, 20)
    ] = 1


def run(options: Options) -> None:
    """Prints the table."""
    from tff_keyboard.evaluation.statistics import power
    from tff_keyboard.report import power_text

    words = [word for each in options.lift for word in each.split(",")]
    if not words:
        raise UsageError("Give at least one --lift=METRIC:POINTS, such as --lift=top-3:0.5.")
    try:
        lifts = [power.lift_of(word) for word in words]
        design = power.Design(options.alpha, options.power, options.looks, len(lifts))
        first, *others = _evaluations(options.results)
        needs = []
        for metric, lift in lifts:
            for other in others:
                need = power.of_replay(other.sums, first.sums, metric, lift, design)
                needs.append((f"same people, {other.model.name}", need))
            needs.append(("two groups", power.of_experiment(first.sums, metric, lift, design)))
    except DataError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from None
    print(power_text.need_table(needs, design))


def _evaluations(path: pathlib.Path) -> "tuple[Evaluation, ...]":
    from tff_keyboard.evaluation.results.comparison import Comparison
    from tff_keyboard.evaluation.results.result import Evaluation, read_json

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        content = None  # `read_json` says what is wrong
    if isinstance(content, dict) and "models" in content:
        return read_json(path, Comparison.from_json, "compare").evaluations
    return (read_json(path, Evaluation.from_json, "evaluate"),)
