"""Estimates how much one person's absence changes the texts that a model writes.

tff-keyboard audit-tail RUN RUN_WITHOUT_SOMEONE
tff-keyboard audit-tail --config=configs/demo.toml --workdir=runs/audit --left_out=0,3,7

The empirical differential privacy of Popov et al. 2018: texts are drawn from the model trained on
everyone and from the one trained without a person, each text's probability under one model is
divided by that under the other, and the Pareto tail of these ratios gives epsilon at a delta, in
both directions. With --config both models are trained here, once for everyone and once for each
person left out (positions in sorted order), in WORKDIR/all and WORKDIR/without_<position>;
interrupted, run the same command again. A model may also be a saved model's directory.

This is an estimate from one training, not a guarantee; docs/tail_audit.md says what it leaves out.
Where the run kept a privacy ledger, the formal epsilon is printed beside it.
"""

import dataclasses
import itertools
import json
import math
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from tasks import cli, run_results, train
from tff_keyboard import config as config_lib
from tff_keyboard import progress, quiet

if TYPE_CHECKING:
    import numpy as np

    from tff_keyboard.data.vocabulary import Vocabulary
    from tff_keyboard.models.next_word_model import NextWordModel

FLAGS = flags.FlagValues()  # of this task alone
_CONFIG = flags.DEFINE_string(
    "config", None, "TOML file of the run to train and audit.", flag_values=FLAGS
)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "With --config: folder of the runs, new or to be resumed.", flag_values=FLAGS
)
_LEFT_OUT = flags.DEFINE_list(
    "left_out",
    [],
    "With --config: positions of train clients, each left out of a training of its own.",
    flag_values=FLAGS,
)
_SET = flags.DEFINE_multi_string(
    "set",
    [],
    "With --config: override `section.key=value`; may be repeated.",
    flag_values=FLAGS,
)
_TEXTS = flags.DEFINE_integer("texts", 10_000, "Texts drawn from each model.", flag_values=FLAGS)
_WORDS = flags.DEFINE_integer("words", 10, "Words of each text.", flag_values=FLAGS)
_DELTA = flags.DEFINE_float("delta", 1e-5, "Epsilon is given at this delta.", flag_values=FLAGS)
_EPSILON = flags.DEFINE_float(
    "epsilon", 1.0, "Delta is given at this epsilon too.", flag_values=FLAGS
)
_SEED = flags.DEFINE_integer("seed", 1, "Of the texts and of the test.", flag_values=FLAGS)
_OUT = flags.DEFINE_string(
    "out",
    None,
    "File for all figures; WORKDIR/audit_tail.json with --config, none without.",
    flag_values=FLAGS,
)

NO_DIFFERENCE, ESTIMATE, NO_ESTIMATE = "no difference", "estimate", "no estimate"
CLAIM = "EMPIRICAL ESTIMATE of this one training, NOT A GUARANTEE"
LEDGER = "privacy_ledger.jsonl"
# What may differ between two runs that differ by one person.
_MAY_DIFFER = ("train.left_out_client", "execution.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What is drawn and reported.

    Attributes:
      num_texts: Drawn from each model.
      num_words: Of each text.
      delta: Epsilon is given here.
      epsilon: Delta is given here.
      seed: Of the texts and of the simulated p-values.

    Raises:
      UsageError: A value is out of range.
    """

    num_texts: int = 10_000
    num_words: int = 10
    delta: float = 1e-5
    epsilon: float = 1.0
    seed: int = 1

    def __post_init__(self):
        from tff_keyboard.privacy import tail_statistics

        least = math.ceil(tail_statistics.MIN_TAIL / tail_statistics.TAIL_FRACTIONS[0])
        for flag, value, lowest in (
            ("texts", self.num_texts, least),
            ("words", self.num_words, 1),
            ("seed", self.seed, 0),
            ("epsilon", self.epsilon, 0),
        ):
            if not value >= lowest:
                raise cli.UsageError(f"--{flag} must be >= {lowest}, got {value}.")
        if not 0 < self.delta < 1:
            raise cli.UsageError(f"--delta must be in (0, 1), got {self.delta}.")


def train_all(
    config: config_lib.RunConfig, workdir: pathlib.Path, left_out: Sequence[int]
) -> tuple[pathlib.Path, list[pathlib.Path]]:
    """Trains with everyone and without each of some people, unless that is done.

    Args:
      config: Of the run; its `train.left_out_client` must be -1.
      workdir: Folder of the runs.
      left_out: Positions of train clients in sorted order.

    Returns:
      The run directory with everyone, and those without one.

    Raises:
      UsageError: A position is not one of the store's train population.
    """
    from tff_keyboard.data.store.client_store import ClientStore

    if config.train.left_out_client != -1:
        raise cli.UsageError(
            f"`train.left_out_client` = {config.train.left_out_client} is what --left_out is for. "
            "Take it out of the config."
        )
    population = len(ClientStore(config.data.store).client_ids("train"))
    for position in left_out:
        if not 0 <= position < population:
            raise cli.UsageError(
                f"--left_out must name positions in [0, {population}), the train clients of "
                f"{config.data.store}; got {position}."
            )
    runs = []
    for position in (-1, *dict.fromkeys(left_out)):
        path = workdir / ("all" if position == -1 else f"without_{position}")
        print(f"== {path.name}", flush=True)
        without = dataclasses.replace(config.train, left_out_client=position)
        train.run(dataclasses.replace(config, train=without), path)
        runs.append(path)
    return runs[0], runs[1:]


def run(
    full: pathlib.Path,
    others: Sequence[pathlib.Path],
    settings: Settings,
    out: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Audits pairs of trained models, prints the table and writes the figures.

    Args:
      full: Run directory or saved model, trained on everyone.
      others: The same, each trained without one person.
      settings: What is drawn and reported.
      out: File of the figures; None for none.

    Returns:
      What the file holds: `claim`, the settings, `formal` (the ledger's guarantee, or null),
      `pairs` (each with `directions`, `epsilon` and `epsilon_conservative`, the worse of both) and
      `worst`. An epsilon is null where there is no estimate; `outcome` says why. A conservative
      one is also null where its tail has no mean, that is where it is infinite.

    Raises:
      UsageError: The models do not have the same vocabulary.
    """
    from tff_keyboard.storage import atomic_files

    if out is not None:
        atomic_files.make_directory(out.parent)  # before the work, not after it
    quiet.import_tensorflow()
    from tff_keyboard.models.generation import sample_texts, text_log_probabilities
    from tff_keyboard.models.saved_model import load_model

    model, vocabulary = load_model(full)
    for path in others:  # all of them before the first text
        _check_same_vocabulary(full, vocabulary, path, load_model(path)[1])
    pairs: list[dict[str, Any]] = []
    with progress.Progress("audit", total=2 + 4 * len(others), unit="passes") as line:
        passes = itertools.count(1)

        def draw(drawn_model: "NextWordModel", part: int) -> "np.ndarray":
            texts = sample_texts(
                drawn_model, settings.num_texts, settings.num_words, 2 * settings.seed + part
            )
            line.update(next(passes))
            return texts

        def score(scoring_model: "NextWordModel", texts: "np.ndarray") -> "np.ndarray":
            log_p = text_log_probabilities(scoring_model, texts)
            line.update(next(passes))
            return log_p

        full_texts = draw(model, 0)
        full_own = score(model, full_texts)
        for path in others:
            other, _ = load_model(path)
            texts = draw(other, 1)
            ratios = {
                # ln c: under the model the texts do not come from, over the one they do.
                "without": score(model, texts) - score(other, texts),
                "with": score(other, full_texts) - full_own,
            }
            pairs.append(_pair(full, path, ratios, settings))
    result = {
        "claim": CLAIM,
        **dataclasses.asdict(settings),
        "full": str(full),
        "formal": formal_guarantee(full),
        "pairs": pairs,
        "worst": worst(pairs),
    }
    print(table(result))
    if out is not None:
        content = json.dumps(result, indent=1, allow_nan=False) + "\n"
        atomic_files.write_atomically(out, [content.encode()])
        print(f"\nAll figures: {out}")
    return result


def direction(log_ratios: "np.ndarray", settings: Settings) -> dict[str, Any]:
    """What one sample of log-ratios says: the tail that was chosen, epsilon and delta.

    Args:
      log_ratios: [texts] float64, ln c.
      settings: Where epsilon and delta are reported, and the seed.
    """
    from tff_keyboard.privacy import tail_statistics

    search = tail_statistics.fit_tail(log_ratios, seed=settings.seed)
    facts: dict[str, Any] = {
        "outcome": NO_ESTIMATE,
        "largest_log_ratio": float(log_ratios.max()),
        "tried": [
            {name: getattr(tail, name) for name in ("num_tail", "statistic", "p_value")}
            for tail in search.tried
        ],
        "epsilon": None,
        "epsilon_conservative": None,
        "delta_at_epsilon": None,
        "delta_at_epsilon_conservative": None,
    }
    if search.no_difference:
        nothing = {name: 0.0 for name, value in facts.items() if value is None}
        return {**facts, **nothing, "outcome": NO_DIFFERENCE}
    if search.fit is None:
        return facts
    careful = search.fit.conservative()
    found = {
        "epsilon": tail_statistics.estimated_epsilon(log_ratios, search.fit, settings.delta),
        "epsilon_conservative": tail_statistics.estimated_epsilon(
            log_ratios, careful, settings.delta
        ),
        "delta_at_epsilon": tail_statistics.estimated_delta(
            log_ratios, search.fit, settings.epsilon
        ),
        "delta_at_epsilon_conservative": tail_statistics.estimated_delta(
            log_ratios, careful, settings.epsilon
        ),
    }
    finite = {name: value if math.isfinite(value) else None for name, value in found.items()}
    usable = finite["epsilon"] is not None
    return {
        **facts,
        **finite,
        "tail": dataclasses.asdict(search.fit),
        "outcome": ESTIMATE if usable else NO_ESTIMATE,
    }


def _pair(
    full: pathlib.Path,
    other: pathlib.Path,
    ratios: Mapping[str, "np.ndarray"],
    settings: Settings,
) -> dict[str, Any]:
    """Both directions of one pair, and the worse of them."""
    from tff_keyboard.privacy import tail_statistics

    directions = {name: direction(values, settings) for name, values in ratios.items()}
    for name, opposite in (("without", "with"), ("with", "without")):
        # The same delta from the other model's texts: no tail, so nothing to get wrong but noise.
        directions[name]["delta_at_epsilon_direct"] = tail_statistics.direct_delta(
            ratios[opposite], settings.epsilon
        )
    return {
        "name": other.name or str(other),
        "model": str(other),
        "rounds_joined": rounds_joined(full, other),
        "other_differences": other_differences(full, other),
        "directions": directions,
        **_worse(directions.values()),
    }


def _worse(results: Any) -> dict[str, Any]:
    """The largest epsilon of several results; null as soon as one of them has none."""
    results = list(results)
    outcomes = [result["outcome"] for result in results]
    worse: dict[str, Any] = {
        "outcome": next(o for o in (NO_ESTIMATE, ESTIMATE, NO_DIFFERENCE) if o in outcomes)
    }
    for name in ("epsilon", "epsilon_conservative"):
        values = [result[name] for result in results]
        worse[name] = None if None in values else max(values)
    return worse


def worst(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The worst pair: `outcome`, `epsilon`, `epsilon_conservative`, and pairs without estimate."""
    without = [pair["name"] for pair in pairs if pair["outcome"] == NO_ESTIMATE]
    return {**_worse(pairs), "no_estimate_for": without}


def rounds_joined(full: pathlib.Path, other: pathlib.Path) -> int | None:
    """Rounds whose cohorts differ, that is in which the person took part; None if not known."""
    if not all((path / "metrics.jsonl").is_file() for path in (full, other)):
        return None
    rows = [run_results.training_rows(path) for path in (full, other)]
    cohorts = [{row["round"]: row.get("cohort") for row in run_rows} for run_rows in rows]
    return sum(cohorts[0][r] != cohorts[1][r] for r in cohorts[0].keys() & cohorts[1].keys())


def other_differences(full: pathlib.Path, other: pathlib.Path) -> list[str]:
    """Config keys, beside the person left out, in which two run directories differ."""
    paths = [path / "config.toml" for path in (full, other)]
    if not all(path.is_file() for path in paths):
        return []
    one, two = (_flat(config_lib.to_dict(config_lib.load(path))) for path in paths)
    return sorted(
        key
        for key in one.keys() | two.keys()
        if one.get(key) != two.get(key) and not key.startswith(_MAY_DIFFER)
    )


def _flat(sections: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in sections.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}.{key}": inner for key, inner in _flat(value).items()})
        else:
            flat[name] = value
    return flat


def formal_guarantee(path: pathlib.Path) -> dict[str, Any] | None:
    """What the run's privacy ledger proves; None where it kept none."""
    from tff_keyboard.privacy import ledger, statement

    if not (path / LEDGER).exists():
        return None
    header, rounds = ledger.read_ledger(path / LEDGER)
    guarantee = statement.guarantee_of(header, len(rounds))
    return {
        "epsilon": guarantee.epsilon if math.isfinite(guarantee.epsilon) else None,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "rounds": len(rounds),
    }


def _check_same_vocabulary(
    full: pathlib.Path, vocabulary: "Vocabulary", other: pathlib.Path, its_own: "Vocabulary"
) -> None:
    if vocabulary.fingerprint != its_own.fingerprint:
        raise cli.UsageError(
            f"{full} and {other} have different vocabularies, so they do not write the same texts. "
            "Train both from one client store."
        )


def table(result: Mapping[str, Any]) -> str:
    """The result as text for a terminal; says what it is before any figure."""
    width = max(len("pair"), *(len(pair["name"]) for pair in result["pairs"]))
    lines = [
        f"{CLAIM}: what {result['num_texts']:,} texts of {result['num_words']} words from each "
        "model show of one person's absence.",
        "",
        f"{'pair':{width}}  texts from      k  alpha [95 %]             C  Lilliefors D, p"
        "  epsilon  cautious    delta   direct  largest ln c",
    ]
    for pair in result["pairs"]:
        for name, facts in pair["directions"].items():
            lines.append(f"{pair['name']:{width}}  {name:10}  {_figures(facts)}")
    lines += [
        "",
        "Texts come from the model with or without the person. epsilon: at delta "
        f"{result['delta']:g}; cautious: with the lower end of alpha's interval; "
        f"delta: at epsilon {result['epsilon']:g}; direct: the same "
        "delta without the tail, from the other model's texts.",
    ]
    for pair in result["pairs"]:
        if pair["rounds_joined"] is not None:
            rounds = pair["rounds_joined"]
            lines.append(f"{pair['name']}: this person took part in {rounds} rounds.")
        if pair["other_differences"]:
            differing = ", ".join(f"`{key}`" for key in pair["other_differences"])
            lines.append(
                f"{pair['name']}: the runs differ in {differing} too: what is found is not due to "
                "the person alone."
            )
    return "\n".join([*lines, "", _verdict(result), _formal(result)])


def _figures(facts: Mapping[str, Any]) -> str:
    if facts["outcome"] == NO_DIFFERENCE:
        return "no difference: every ratio is exactly 1; epsilon 0, delta 0"
    if facts["outcome"] == NO_ESTIMATE:
        p_values = ", ".join(f"{tail['p_value']:.3f}" for tail in facts["tried"])
        return (
            f"NO ESTIMATE: no tail passes as Pareto with a mean (p {p_values}); largest ln c "
            f"{facts['largest_log_ratio']:.4g}"
        )
    tail = facts["tail"]
    interval = f"{tail['alpha']:.1f} [{tail['alpha_low']:.1f}, {tail['alpha_high']:.1f}]"
    test = f"{tail['statistic']:.3f}, {tail['p_value']:.2f}"
    return (
        f"{tail['num_tail']:5}  {interval:21} {_scale(tail['log_scale']):>8}  {test:15}"
        f"  {_epsilon(facts['epsilon']):>7}  {_epsilon(facts['epsilon_conservative']):>8}"
        f"  {facts['delta_at_epsilon']:7.1e}  {facts['delta_at_epsilon_direct']:7.1e}"
        f"  {facts['largest_log_ratio']:12.4g}"
    )


def _scale(log_scale: float) -> str:
    return f"{math.exp(log_scale):.3g}" if abs(log_scale) < 200 else f"e^{log_scale:.0f}"


def _epsilon(epsilon: float | None) -> str:
    return "infinite" if epsilon is None else f"{epsilon:.4f}"


def _verdict(result: Mapping[str, Any]) -> str:
    found, pairs = result["worst"], result["pairs"]
    if found["outcome"] == NO_ESTIMATE:
        return (
            f"NO ESTIMATE overall: in {len(found['no_estimate_for'])} of {len(pairs)} pairs a "
            f"direction has none ({', '.join(found['no_estimate_for'])}). That is no sign of "
            "privacy. More --texts reach further into the tail."
        )
    if found["outcome"] == NO_DIFFERENCE:
        return "No difference: the models of every pair give every text the same probability."
    return (
        f"Worst of {len(pairs)} pairs and both directions, estimated: epsilon "
        f"{_epsilon(found['epsilon'])} at delta {result['delta']:g}; cautious "
        f"{_epsilon(found['epsilon_conservative'])}."
    )


def _formal(result: Mapping[str, Any]) -> str:
    formal = result["formal"]
    if formal is None:
        return "Formal guarantee: none; the run kept no privacy ledger (`aggregation.dp`)."
    epsilon = "infinite" if formal["epsilon"] is None else f"{formal['epsilon']:.2f}"
    return (
        f"Formal guarantee, of all {formal['rounds']} rounds' models: epsilon {epsilon} at delta "
        f"{formal['delta']:g} ({formal['adjacency']}). Assumptions: tff-keyboard privacy "
        f"{result['full']}"
    )


def _positions(words: Sequence[str]) -> list[int]:
    try:
        return [int(word) for word in words]
    except ValueError:
        raise cli.UsageError(
            f"--left_out takes whole numbers, such as 0,3,7; got {','.join(words)!r}."
        ) from None


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    settings = Settings(
        num_texts=_TEXTS.value,
        num_words=_WORDS.value,
        delta=_DELTA.value,
        epsilon=_EPSILON.value,
        seed=_SEED.value,
    )
    out = pathlib.Path(_OUT.value) if _OUT.value else None
    if _CONFIG.value is None:
        if _WORKDIR.value or _LEFT_OUT.value or _SET.value:
            raise cli.UsageError("--workdir, --left_out and --set need --config=FILE.toml.")
        if len(argv) != 2:
            raise cli.UsageError(
                "Give two run directories, with and without a person, or --config, --workdir and "
                f"--left_out; got {len(argv)} arguments. See --help."
            )
        run(pathlib.Path(argv[0]), [pathlib.Path(argv[1])], settings, out)
        return
    cli.only_flags(argv)
    if not _WORKDIR.value:
        raise cli.UsageError("Give --workdir=DIRECTORY, where the runs are kept.")
    left_out = _positions(_LEFT_OUT.value)
    if not left_out:
        raise cli.UsageError("Give --left_out=POSITIONS, such as 0,3,7: who is left out.")
    workdir = pathlib.Path(_WORKDIR.value)
    full, others = train_all(config_lib.load(_CONFIG.value, _SET.value), workdir, left_out)
    run(full, others, settings, out or workdir / "audit_tail.json")


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
