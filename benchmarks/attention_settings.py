"""What a training of `attention_sweeps.py` can be told, and what is usual for each rule."""

import dataclasses
from typing import Any

from benchmarks.attention_rules import Rule

WORDS = 12.8  # of a sentence, about
CONTROL = "fedavg_epsilon"  # FedAvg with the server's step of the rules that it controls
_FEDSGD: dict[str, Any] = {"epochs": 1}  # one gradient a round


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """One training but for its seed.

    Attributes:
      rule: Of aggregation.
      share: C, of the train clients that are in a round.
      epochs: E, local.
      batch: B, sentences of about `WORDS` words each.
      rate: Of the clients' SGD, whose gradients are cut to norm 1, each by itself.
      dim: Of word vectors.
      tied: Whether the output table is the embedding.
      rounds: At most; it ends when its curve is flat (`attention_progress.py`).
    """

    rule: Rule
    share: float = 0.1
    epochs: int = 5
    batch: int = 10
    rate: float = 2.0
    dim: int = 32
    tied: bool = True
    rounds: int = 4000

    @property
    def name(self) -> str:
        """Of its files: what differs from the defaults."""
        rule, own = dataclasses.asdict(self.rule), dataclasses.asdict(self)
        usual = dataclasses.asdict(Rule(name=self.rule.name))
        words = [rule["name"]]
        words += [f"{k}={v}" for k, v in rule.items() if v != usual[k]]
        plain = dataclasses.asdict(Setting(rule=self.rule))
        words += [f"{k}={v}" for k, v in own.items() if k != "rule" and v != plain[k]]
        return ",".join(words)


def changed(setting: Setting, **changes: Any) -> Setting:
    """The setting with keys of it, or of its rule, changed.

    >>> changed(usual("fedatt"), epsilon=0.8, dim=64).name
    'fedatt,epsilon=0.8,dim=64'
    """
    of_rule = {field.name for field in dataclasses.fields(Rule)} & set(changes)
    rule = dataclasses.replace(setting.rule, **{key: changes[key] for key in of_rule})
    own = {key: value for key, value in changes.items() if key not in of_rule}
    return dataclasses.replace(setting, rule=rule, **own)


def usual(rule: str) -> Setting:
    """The setting of the main table for the rule of this name.

    >>> usual("fedatt").epochs, usual("fedsgd").epochs
    (5, 1)
    """
    return Setting(rule=Rule(name=rule), **(_FEDSGD if rule == "fedsgd" else {}))
