"""Decides if a new model may replace the current one: margins and golden prompts."""

import dataclasses
import pathlib
from collections.abc import Sequence

from tff_keyboard.evaluation.named.named_predictor import NamedPredictor
from tff_keyboard.evaluation.results import golden_prompts, non_inferiority
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.results.golden_prompts import Prompts
from tff_keyboard.evaluation.results.non_inferiority import Margin
from tff_keyboard.storage.errors import CheckFailed, UsageError


@dataclasses.dataclass(frozen=True)
class ReleaseGate:
    """The conditions for every model of a comparison but the first, or for a single model."""

    margins: tuple[Margin, ...]
    prompts: Prompts | None

    def judge(
        self, models: Sequence[NamedPredictor], comparison: Comparison
    ) -> tuple[list[str], CheckFailed | None]:
        """Returns the lines to print, and the first failure if there is one."""
        failures: list[CheckFailed] = []
        lines = []
        try:
            found = non_inferiority.gate_lines(comparison, self.margins)
            lines = [str(line) for line in found]
            non_inferiority.check_lines(found)
        except CheckFailed as error:
            failures.append(error)
        for number, model in enumerate(models if self.prompts is not None else ()):
            assert self.prompts is not None
            report = golden_prompts.check_prompts(model.predictor, self.prompts)
            lines.append(f"{model.name}: {report.table()}")
            try:
                report.check(model.name)
            except CheckFailed as error:
                if number > 0 or len(models) == 1:
                    failures.append(error)
        return lines, failures[0] if failures else None


def release_gate(
    fail_if_worse: str | None, prompts: pathlib.Path | None, *, num_models: int
) -> ReleaseGate:
    """Builds the gate from command-line options: margins such as "top-3:0.2,kss:0.2", and prompts.

    Raises:
      UsageError: If the margins are invalid, or there is no model to compare with.
      DataError: If the prompts cannot be read.
    """
    if fail_if_worse is not None and num_models < 2:
        raise UsageError(
            "--fail-if-worse compares with the first model, so it requires at least two models."
        )
    return ReleaseGate(
        non_inferiority.parse_margins(fail_if_worse) if fail_if_worse is not None else (),
        golden_prompts.read_prompts(prompts) if prompts is not None else None,
    )
