"""Compares models on text that devices never trained on: an A/B test before a rollout.

tff-keyboard compare-on-devices runs/fleet runs/candidate --config=configs/fleet.toml --workdir=ab
tff-keyboard compare-on-devices ... --gate=not-worse && publish runs/candidate

Devices check in as for `serve-rounds`. Each counts the first model and the others on its newest
messages, trains nothing, and sends only bounded sums, masked with `devices.secure_sums`. The table
is the one of `compare`, with intervals over groups of devices. To resume, run the same command
again. Models must have one vocabulary and one size.

--gate fails (exit code 5) unless each later model is "better" than the first one, or "not-worse",
in top-3 recall and in keystrokes saved, without own words and with them. "not-worse" also needs an
interval above -MARGIN percentage points, so that few groups or much noise do not pass.
--own-words=0.2 counts each model a second time, with the user's own words at this weight.
--noise-multiplier adds noise to the sums of each group; then `tff-keyboard privacy WORKDIR` prints
the guarantee.
"""

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from absl import flags

from tff_keyboard.command_line.options import ConfigOptions, Positional, Workdir
from tff_keyboard.parts.privacy_mechanism import NOISE_MULTIPLIERS
from tff_keyboard.storage import files, names
from tff_keyboard.storage.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from tff_keyboard.evaluation.results.comparison import Comparison

BETTER, NOT_WORSE = "better", "not-worse"
GATE_METRICS = ("recall_at_3_no_eos", "kss")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(ConfigOptions):
    """Flags of `compare-on-devices`."""

    models: Annotated[
        tuple[str, ...], Positional("run directories or folders of models", min_count=1)
    ]
    workdir: Workdir
    groups: Annotated[int, "Number of groups of devices, at least 2.", flags.IntegerParser(2)] = 20
    max_words: Annotated[
        int,
        "Bound on the words and ends of messages that a device counts. Devices send nothing about "
        "fewer than 32.",
        flags.IntegerParser(128),
    ] = 512
    own_words: Annotated[
        float, "Weight of the user's own words in a second count, below 1. 0: no second count."
    ] = 0.0
    first_round: Annotated[
        int,
        "Number of the first group's round. An earlier evaluation of the population prints it, "
        "because its devices refuse rounds below.",
        flags.IntegerParser(1),
    ] = 1
    noise_multiplier: Annotated[
        float, "Noise in the sums of a group, in bounds of a device's part. 0: no noise."
    ] = 0.0
    delta: Annotated[float, "Delta of the guarantee, with --noise-multiplier."] = 1e-6
    noise_secret: Annotated[str, "As `aggregation.privacy.noise_secret`."] = ""
    gate: Annotated[
        str | None,
        "Fail unless each later model is 'better' or 'not-worse' than the first.",
        flags.EnumParser([BETTER, NOT_WORSE]),
    ] = None
    margin: Annotated[
        float, "Percentage points that --gate=not-worse lets a model lose at most, at 95 %."
    ] = 1.0
    host: Annotated[str, "Address to listen on. Only the proxy should reach it."] = "127.0.0.1"
    port: Annotated[int, "Port. 0 selects a free one.", flags.IntegerParser(0, 65_535)] = 8470

    def __post_init__(self) -> None:
        if self.config is None:
            raise UsageError("`compare-on-devices` requires --config. See docs/fleet/README.md.")
        if self.gate and len(self.models) < 2:
            raise UsageError("--gate requires two models: the current one, and a candidate.")
        try:
            NOISE_MULTIPLIERS.check("--noise-multiplier", self.noise_multiplier)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta must be in (0, 1), got {self.delta}.")
        if not self.margin >= 0:
            raise UsageError(f"--margin must be >= 0, got {self.margin}.")
        if not 0 <= self.own_words < 1:
            raise UsageError(f"--own-words must be in [0, 1), got {self.own_words}.")


def run(options: Options) -> None:
    """Serves the groups, prints the table, and checks the gate.

    Raises:
      CheckFailed: If a model fails the gate.
      ConfigError: If the config or the models do not fit.
    """
    config = options.run_config()
    from tff_keyboard.evaluation.report import comparison_text
    from tff_keyboard.models.saved_model import load_model
    from tff_keyboard_fleet.on_devices import served_graph
    from tff_keyboard_fleet.on_devices.evaluation_rounds import (
        EvaluatedModel,
        EvaluationSettings,
        evaluate_on_devices,
    )
    from tff_keyboard_fleet.round_server import serving

    settings = EvaluationSettings(
        groups=options.groups,
        max_words=options.max_words,
        own_words=options.own_words,
        first_round=options.first_round,
        noise_multiplier=options.noise_multiplier,
        delta=options.delta,
        noise_secret=options.noise_secret,
    )
    models = []
    for name in options.models:
        model, vocabulary = load_model(pathlib.Path(name))
        models.append(
            EvaluatedModel(
                name=name, directory=pathlib.Path(name), model=model, vocabulary=vocabulary
            )
        )
    comparisons = evaluate_on_devices(
        config,
        options.workdir,
        models,
        settings,
        serve=lambda app: serving.served(app, options.host, options.port),
        graph=served_graph,
    )
    outputs = (names.COMPARISON, names.COMPARISON_WITH_OWN_WORDS)
    for comparison, name in zip(comparisons, outputs, strict=False):
        content = json.dumps(comparison.to_json(), indent=1, allow_nan=False)
        files.write_atomically(options.workdir / name, [content.encode()], mode=files.OWNER_ONLY)
        print(comparison_text.first_rows(comparison))
    # A device of the last group refuses the next `groups` - 1 rounds.
    following = options.first_round + 2 * options.groups - 1
    print(f"The next evaluation of this population needs --first-round={following} or more.")
    if options.gate:
        check_gate(comparisons, options.gate, options.margin)


def check_gate(comparisons: "Sequence[Comparison]", gate: str, margin: float) -> None:
    """Checks the verdicts about all models after the first, in `GATE_METRICS`.

    Args:
      comparisons: The comparisons.
      gate: `BETTER` or `NOT_WORSE`.
      margin: Percentage points by which a model that is not better may be worse, at the lower end
        of the interval.

    Raises:
      CheckFailed: If a verdict is not good enough, or there are too few groups for one.
    """
    failures = []
    for comparison in comparisons:
        for name, differences in zip(comparison.names[1:], comparison.differences, strict=True):
            for metric in GATE_METRICS:
                verdict, low = differences[metric].verdict, differences[metric].interval.low
                if verdict == "better":
                    continue
                if gate == BETTER or verdict != "not distinguishable":
                    failures.append(f"{name} is {verdict or 'without a verdict'} in {metric}")
                elif not 100 * low >= -margin:
                    failures.append(
                        f"{name} may lose {-100 * low:.1f} points of {metric}, more than "
                        f"{margin:g} (use more groups, or less noise)"
                    )
    if failures:
        raise CheckFailed(f"--gate={gate} failed: {'; '.join(failures)}. Do not publish it.")
    print(f"--gate={gate} passed.")
