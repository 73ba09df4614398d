"""The table of `attention_sweeps.py`: each setting against the control at the same setting.

Intervals are 95 % jackknives over held-out people, paired, a person left out of all seeds at once,
as those of `tff-keyboard study`; "better" and "worse" need three seeds whose pooled interval lies
on one side and whose own factors all do.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.metrics.jackknife import Interval, difference_interval, ratio_interval
from tff_keyboard.study.rows import FEWEST_SEEDS

_OWN = ("name", "temperature", "norm", "noise", "threshold", "top")  # of a rule, not of its control


def rows_of(trainings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each setting, JSON values; perplexities are of the best round on validation."""
    by_setting: dict[str, dict[int, Mapping[str, Any]]] = {}
    for each in trainings:
        by_setting.setdefault(_key(each["setting"]), {})[each["seed"]] = each
    controls = {
        _key(_shared(json.loads(key))): found
        for key, found in by_setting.items()
        if json.loads(key)["rule"]["name"] == "fedavg_epsilon"
    }
    rows = []
    for key, by_seed in sorted(by_setting.items(), key=lambda pair: _order(json.loads(pair[0]))):
        setting = json.loads(key)
        row = {
            "setting": setting,
            "label": label(setting),
            "seeds": sorted(by_seed),
            "held_out_perplexity": _exp(_pooled(by_seed.values())),
            "rounds_to_best": [by_seed[seed]["best_round"] for seed in sorted(by_seed)],
            "at_its_end": all(each["ended"] for each in by_seed.values()),
            "adaptive_rounds": float(np.mean([e["adaptive_rounds"] for e in by_seed.values()])),
            "effective_clients": float(np.mean([e["effective_clients"] for e in by_seed.values()])),
            "clients": next(iter(by_seed.values()))["clients"],
            "upload_mb_to_best": _uploaded(setting, by_seed),
        }
        control = controls.get(_key(_shared(setting)), {})
        both = sorted(set(by_seed) & set(control))
        if setting["rule"]["name"] != "fedavg_epsilon" and both:
            row |= _against(by_seed, control, both)
        rows.append(row)
    return rows


def _shared(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The control's setting: the same but for what is the rule's own."""
    found = {**setting, "rule": {**setting["rule"]}}
    for name in _OWN:
        found["rule"].pop(name)
    if setting["rule"]["name"] == "fedsgd":  # one gradient a round: compared with the main control
        found |= {"epochs": 5, "rounds": 150, "patience": 6}
    return found


def _key(setting: Mapping[str, Any]) -> str:
    return json.dumps(setting, sort_keys=True)


def _order(setting: Mapping[str, Any]) -> tuple[Any, ...]:
    plain = setting["rule"]["epsilon"] == 1.2 and setting["share"] == 0.1 and setting["dim"] == 32
    plain = plain and setting["rate"] == 2.0 and setting["patience"] in (6, 40)
    main = plain and setting["epochs"] == (1 if setting["rule"]["name"] == "fedsgd" else 5)
    place = ["fedavg_epsilon", "fedavg", "fedatt", "fedmed", "fedsgd"]
    point = [setting[key] for key in ("share", "epochs", "rate", "dim", "patience")] + [
        setting["rule"]["epsilon"]
    ]
    return not main, *([] if main else point), place.index(setting["rule"]["name"]), label(setting)


def label(setting: Mapping[str, Any]) -> str:
    """What a row is called."""
    rule = setting["rule"]
    names = {
        "fedavg_epsilon": f"FedAvg, server rate {rule['epsilon']:g}",
        "fedavg": "FedAvg, by words, server rate 1",
        "fedatt": "FedAtt",
        "fedmed": "FedMed",
        "fedsgd": "FedSGD",
    }
    words = [names[rule["name"]]]
    if rule["name"] == "fedmed":
        words.append("always adaptive" if not rule["threshold"] else "")
        words.append(f"topK {rule['top']:g}" if rule["top"] < 1 else "")
    if rule["name"] == "fedatt":
        words.append(f"{rule['norm']} norm" if rule["norm"] != "2" else "")
        words.append(f"randomised, {rule['noise']:g}" if rule["noise"] else "")
        words.append(f"temperature {rule['temperature']:g}" if rule["temperature"] != 1 else "")
    if rule["name"] in ("fedatt", "fedmed") and rule["epsilon"] != 1.2:
        words.append(f"ε = {rule['epsilon']:g}")
    words.append(f"C = {setting['share']:g}" if setting["share"] != 0.1 else "")
    usual = 1 if rule["name"] == "fedsgd" else 5
    words.append(f"E = {setting['epochs']}" if setting["epochs"] != usual else "")
    words.append(f"client rate {setting['rate']:g}" if setting["rate"] != 2 else "")
    usual = 40 if rule["name"] == "fedsgd" else 6
    words.append(f"patience {setting['patience']}" if setting["patience"] != usual else "")
    words.append(f"size {setting['dim']}" if setting["dim"] != 32 else "")
    return ", ".join(word for word in words if word)


def _sums(trainings: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.sum([each[key] for each in trainings], axis=0) for key in ("nats", "words"))


def _pooled(trainings: Any) -> Interval:
    return ratio_interval(*_sums(list(trainings)))


def _exp(interval: Interval) -> dict[str, float]:
    return {name: math.exp(getattr(interval, name)) for name in ("value", "low", "high")}


def _against(by_seed, control, seeds) -> dict[str, Any]:
    pooled = difference_interval(
        *_sums([by_seed[s] for s in seeds]), *_sums([control[s] for s in seeds])
    )
    of_seeds = [
        math.exp(difference_interval(*_sums([by_seed[s]]), *_sums([control[s]])).value)
        for s in seeds
    ]
    factor = _exp(pooled)
    return {
        "factor": factor,
        "factor_of_seeds": of_seeds,
        "verdict": verdict(factor, of_seeds),
    }


def verdict(factor: Mapping[str, float], of_seeds: Sequence[float]) -> str:
    """What the factor of a perplexity says.

    >>> verdict({"low": 0.9, "high": 0.98}, [0.95, 0.93, 0.97])
    'better'
    >>> verdict({"low": 0.9, "high": 0.98}, [0.95, 0.93, 1.01])
    'not distinguishable'
    """
    if len(of_seeds) < FEWEST_SEEDS:
        return "too few seeds"
    if factor["high"] < 1 and max(of_seeds) < 1:
        return "better"
    if factor["low"] > 1 and min(of_seeds) > 1:
        return "worse"
    return "not distinguishable"


def _uploaded(setting: Mapping[str, Any], by_seed: Mapping[int, Mapping[str, Any]]) -> float:
    """MB that clients send until the best round, mean over seeds; topK's others send nothing."""
    share = setting["rule"]["top"] if setting["rule"]["name"] == "fedmed" else 1.0
    sent = [
        math.ceil(share * each["clients"] - 1e-9) * each["best_round"] * 4 * each["parameters"]
        for each in by_seed.values()
    ]
    return float(np.mean(sent)) / 1e6


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table."""
    lines = [
        "| | seeds | held-out perplexity | factor of the control's; by seed | best round | MB sent "
        "until then | effective clients | adaptive rounds |",
        "|---" * 8 + "|",
    ]
    for row in rows:
        found = row["held_out_perplexity"]
        cells = [row["label"], ", ".join(map(str, row["seeds"])), _interval(found, ".1f")]
        if "factor" in row:
            ends = f"{min(row['factor_of_seeds']):.3f} .. {max(row['factor_of_seeds']):.3f}"
            cells.append(f"{_interval(row['factor'], '.3f')}; {ends} {row['verdict']}")
        else:
            cells.append("control")
        cells.append(", ".join(map(str, row["rounds_to_best"])))
        cells[-1] += "" if row["at_its_end"] else " (not at its end)"
        cells.append(f"{row['upload_mb_to_best']:.0f}")
        cells.append(f"{row['effective_clients']:.2f} of {row['clients']}")
        adaptive = row["setting"]["rule"]["name"] == "fedmed"
        cells.append(f"{100 * row['adaptive_rounds']:.0f} %" if adaptive else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(values: Mapping[str, float], form: str) -> str:
    value, low, high = (format(values[name], form) for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"
