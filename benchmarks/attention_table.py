"""The table of `attention_sweeps.py`: each setting against the control at the same setting.

Intervals are 95 % jackknives over held-out people, paired, a person left out of all seeds at once,
as those of `tff-keyboard study`; and so are the verdicts. The target is `TARGET` times the best
validation perplexity that the control reaches with the same seed. How far a row's trainings went is
said by `attention_progress.py`.
"""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.attention_progress import progress_of, word_for
from benchmarks.attention_settings import CONTROL, usual
from tff_keyboard.evaluation.comparison import verdict, verdict_over_seeds
from tff_keyboard.metrics.jackknife import Interval, difference_interval, ratio_interval

TARGET = 1.05
_HEADS = (
    *("", "seeds", "held-out perplexity", "factor of the control's; by seed", "rounds trained"),
    *("M words trained on", "last quarter gained", "best round", "MB sent until then"),
    *("rounds to the target", "MB sent until then", "effective clients", "adaptive rounds"),
)

_OWN = ("name", "temperature", "norm", "threshold", "top")  # of a rule, not of its control
_NAMES = {  # in the order of the tables; the braces are for the server's step
    CONTROL: "FedAvg, server rate {:g}",
    "fedavg": "FedAvg, by words, server rate 1",
    "fedatt": "FedAtt",
    "fedmed": "FedMed",
    "fedsgd": "FedSGD",
}
_OF_TRAINING = {  # what can be told, in the order of the sweeps' rows
    "share": "C = {:g}",
    "epochs": "E = {}",
    "batch": "B = {}",
    "rate": "client rate {:g}",
    "dim": "size {}",
    "tied": "untied",
    "rounds": "at most {} rounds",
}


def read_rows(path: pathlib.Path, part: str = "rows") -> list[dict[str, Any]]:
    """Of a JSON that `attention_sweeps.py --out` wrote.

    Args:
      path: Of the JSON.
      part: "rows", or "at_best_rate" (`attention_best_rate.py`).

    Raises:
      ValueError: It has no such rows, as those of older versions.
    """
    found = json.loads(path.read_text())
    if not isinstance(found, dict) or part not in found:
        raise ValueError(f"{path} has no `{part}`: write it again with attention_sweeps --table.")
    return found[part]


def rows_of(trainings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each setting, JSON values; perplexities are of the best round on validation."""
    by_setting: dict[str, dict[int, Mapping[str, Any]]] = {}
    for each in trainings:
        by_setting.setdefault(_key(each["setting"]), {})[each["seed"]] = each
    controls = {
        _key(_shared(json.loads(key))): found
        for key, found in by_setting.items()
        if json.loads(key)["rule"]["name"] == CONTROL
    }
    rows = []
    for key, by_seed in sorted(by_setting.items(), key=lambda pair: _order(json.loads(pair[0]))):
        setting = json.loads(key)
        of_seeds = [by_seed[seed] for seed in sorted(by_seed)]
        row = {
            "setting": setting,
            "label": label(setting),
            "point": point_of(setting),
            "seeds": sorted(by_seed),
            "commits": [each.get("commit") for each in of_seeds],
            "dates": [each.get("date") for each in of_seeds],
            "held_out_perplexity": held_out_perplexity(of_seeds),
            "rounds_to_best": [each["best_round"] for each in of_seeds],
            **progress_of(of_seeds),
            "adaptive_rounds": float(np.mean([each["adaptive_rounds"] for each in of_seeds])),
            "effective_clients": float(np.mean([each["effective_clients"] for each in of_seeds])),
            "clients": of_seeds[0]["clients"],
            "upload_mb_to_best": float(
                np.mean([_sent(setting, each, each["best_round"]) for each in of_seeds])
            ),
        }
        control = controls.get(_key(_shared(setting)), {})
        both = sorted(set(by_seed) & set(control))
        row |= _to_target(setting, [(by_seed[seed], control[seed]) for seed in both])
        if setting["rule"]["name"] != CONTROL and both:
            row |= against(by_seed, control, both)
        rows.append(row)
    return rows


def _usual(rule: str) -> dict[str, Any]:
    return dataclasses.asdict(usual(rule))


def _shared(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The control's setting: the same but for what is the rule's own, and what is usual for it."""
    own, control = _usual(setting["rule"]["name"]), _usual(CONTROL)
    found = {key: control[key] if value == own[key] else value for key, value in setting.items()}
    found["rule"] = {key: value for key, value in setting["rule"].items() if key not in _OWN}
    return found


def _key(setting: Mapping[str, Any]) -> str:
    return json.dumps(setting, sort_keys=True)


def _order(setting: Mapping[str, Any]) -> tuple[Any, ...]:
    """The main table first, then point by point of the sweeps."""
    rule = setting["rule"]
    main = not _changes(setting)
    plain = _usual(rule["name"])
    point = [] if main else [(setting[k] != plain[k], setting[k]) for k in _OF_TRAINING]
    return not main, *point, rule["epsilon"], list(_NAMES).index(rule["name"]), label(setting)


def label(setting: Mapping[str, Any]) -> str:
    """What a row is called: its rule, and what is not usual for that."""
    rule, plain = setting["rule"], _usual(setting["rule"]["name"])
    words = [_NAMES[rule["name"]].format(rule["epsilon"])]
    if not rule["threshold"]:
        words.append("always adaptive")
    elif rule["threshold"] != plain["rule"]["threshold"]:
        words.append(f"adaptive from {rule['threshold']:g} nats")
    of_rule = {
        "top": "topK {:g}",
        "norm": "{} norm",
        "noise": "randomised, {:g}",
        "temperature": "temperature {:g}",
        "epsilon": "" if rule["name"] == CONTROL else "ε = {:g}",
    }
    words += [form.format(rule[k]) for k, form in of_rule.items() if rule[k] != plain["rule"][k]]
    words += [form.format(setting[k]) for k, form in _OF_TRAINING.items() if setting[k] != plain[k]]
    return ", ".join(word for word in words if word)


def point_of(setting: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is changed of the training, or of the server's step; None off the sweeps.

    Off them is a rule with an option of its own changed.
    """
    rule, plain = setting["rule"], _usual(setting["rule"]["name"])["rule"]
    return None if any(rule[key] != plain[key] for key in _OWN) else _changes(setting)


def label_of_point(point: Mapping[str, Any]) -> str:
    """Of a point of the sweeps.

    >>> label_of_point({"share": 0.3}), label_of_point({"dim": 64, "tied": False})
    ('C = 0.3', 'size 64, untied')
    """
    if not point:
        plain = usual(CONTROL)
        step = plain.rule.epsilon
        return f"C = {plain.share:g}, E = {plain.epochs}, ε = {step:g}, size {plain.dim}, tied"
    forms = {**_OF_TRAINING, "epsilon": "ε = {:g}", "noise": "noise {:g}"}
    return ", ".join(forms[key].format(value) for key, value in point.items())


def _changes(setting: Mapping[str, Any]) -> dict[str, Any]:
    """What of the training, or of the server's step, is not usual for the rule."""
    plain = _usual(setting["rule"]["name"])
    changes = {key: setting[key] for key in _OF_TRAINING if setting[key] != plain[key]}
    if setting["rule"]["epsilon"] != plain["rule"]["epsilon"]:
        changes["epsilon"] = setting["rule"]["epsilon"]
    if setting["rule"]["noise"]:
        changes["noise"] = setting["rule"]["noise"]
    return changes


def _sums(trainings: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.sum([each[key] for each in trainings], axis=0) for key in ("nats", "words"))


def _exp(interval: Interval) -> dict[str, float]:
    return {name: math.exp(getattr(interval, name)) for name in ("value", "low", "high")}


def held_out_perplexity(trainings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of all seeds together: `value`, `low` and `high`."""
    return _exp(ratio_interval(*_sums(trainings)))


def against(
    by_seed: Mapping[int, Mapping[str, Any]],
    control: Mapping[int, Mapping[str, Any]],
    seeds: Sequence[int],
) -> dict[str, Any]:
    """`factor`, `factor_of_seeds` and `verdict` of a setting beside its control, paired."""
    pooled = difference_interval(
        *_sums([by_seed[s] for s in seeds]), *_sums([control[s] for s in seeds])
    )
    of_seeds = [
        math.exp(difference_interval(*_sums([by_seed[s]]), *_sums([control[s]])).value)
        for s in seeds
    ]
    return {
        "factor": _exp(pooled),
        "factor_of_seeds": of_seeds,
        "verdict": verdict_over_seeds(verdict(pooled, better="lower"), of_seeds, neutral=1.0),
    }


def _to_target(setting: Mapping[str, Any], pairs: Sequence[Any]) -> dict[str, Any]:
    """Rounds and MB until the target, a seed each; None where it was not reached."""
    rounds = [_first_at(each["curve"], TARGET * min(control["curve"])) for each, control in pairs]
    sent = [
        None if number is None else _sent(setting, each, number)
        for number, (each, _) in zip(rounds, pairs, strict=True)
    ]
    return {"rounds_to_target": rounds, "upload_mb_to_target": sent}


def _first_at(curve: Sequence[float], target: float) -> int | None:
    """The first round, from 1, whose perplexity is at most `target`.

    >>> _first_at([9.0, 5.0, 6.0], 6.0), _first_at([9.0], 6.0)
    (2, None)
    """
    return next((number for number, value in enumerate(curve, 1) if value <= target), None)


def _sent(setting: Mapping[str, Any], training: Mapping[str, Any], rounds: int) -> float:
    """MB that clients send in so many rounds; those that topK leaves out send nothing."""
    share = setting["rule"]["top"] if setting["rule"]["name"] == "fedmed" else 1.0
    clients = math.ceil(share * training["clients"] - 1e-9)
    return clients * rounds * 4 * training["parameters"] / 1e6


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table."""
    lines = []
    for row in rows:
        found = row["held_out_perplexity"]
        cells = [row["label"], ", ".join(map(str, row["seeds"])), interval_text(found, ".1f")]
        cells.append(factor_text(row))
        cells.append(_each(row["rounds_trained"]))
        cells.append(_each([each and each / 1e6 for each in row["tokens"]], ".2f", "-"))
        gains = [None if each is None else 100 * each for each in row["last_quarter_gained"]]
        cells.append(f"{_each(gains, '.1f', '-')} %: {word_for(row)}")
        cells.append(_each(row["rounds_to_best"]))
        cells.append(f"{row['upload_mb_to_best']:.0f}")
        cells.append(_each(row["rounds_to_target"], none="never"))
        cells.append(_each(row["upload_mb_to_target"], none="never"))
        cells.append(f"{row['effective_clients']:.2f} of {row['clients']}")
        adaptive = row["setting"]["rule"]["name"] == "fedmed"
        cells.append(f"{100 * row['adaptive_rounds']:.0f} %" if adaptive else "")
        lines.append(cells)
    return table(_HEADS, lines)


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Markdown of cells.

    >>> print(table(["rule", "seeds"], [["FedAtt", "3"]]))
    | rule | seeds |
    |---|---|
    | FedAtt | 3 |
    """
    head, *body = (f"| {' | '.join(cells)} |" for cells in (heads, *lines))
    return "\n".join([head, "|---" * len(heads) + "|", *body])


def _each(values: Sequence[float | None], form: str = ".0f", none: str = "-") -> str:
    return ", ".join(none if value is None else format(value, form) for value in values)


def factor_text(row: Mapping[str, Any]) -> str:
    """What tables say of a row beside its control: over all seeds, by seed, and the verdict."""
    if "factor" not in row:
        return "control"
    ends = f"{min(row['factor_of_seeds']):.3f} .. {max(row['factor_of_seeds']):.3f}"
    return f"{interval_text(row['factor'], '.3f')}; {ends} {row['verdict']}"


def interval_text(values: Mapping[str, float], form: str) -> str:
    """A value and its interval.

    >>> interval_text({"value": 1.0, "low": 0.94, "high": 1.06}, ".1f")
    '1.0 [0.9, 1.1]'
    """
    value, low, high = (format(values[name], form) for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"
