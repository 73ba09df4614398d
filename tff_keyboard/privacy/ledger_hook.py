"""The privacy ledger as a hook of the training loop (`training.loop.training_loop.Hook`)."""

import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from tff_keyboard.privacy.claims.guarantee import total_guarantee
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.privacy.ledger.ledger_header import LedgerHeader
from tff_keyboard.privacy.mechanisms import noise_key

_RECORDED = ("clip_norm", "noise_stddev")  # last words of metric names


class LedgerHook:
    """Records each round before the loop releases it, and reports the epsilon spent so far.

    `content_tag` returns the tag of the round's data from the state after a round, if the noise
    depends on one (`privacy/mechanisms/noise_content.py`). `epsilon_every` is the number of rounds
    between values of the metric `privacy/epsilon` (half a second each for cohorts of fixed size); 0
    means never. The ledger is written in every round regardless.
    """

    def __init__(
        self,
        path: pathlib.Path,
        header: LedgerHeader,
        *,
        epsilon_every: int = 10,
        content_tag: Callable[[Any], str] = lambda state: "",
    ):
        if epsilon_every < 0:
            raise ValueError(f"`epsilon_every` must be >= 0 rounds, got {epsilon_every}.")
        self._ledger = PrivacyLedger(path, header)
        self._header = header
        self._epsilon_every = epsilon_every
        self._content_tag = content_tag

    def restart_after(self, round_num: int) -> None:
        """Continues after `round_num`. The lines of later rounds remain and must be repeated."""
        self._ledger.restart_after(round_num)

    def before_release(
        self, round_num: int, state: Any, metrics: Mapping[str, Any]
    ) -> Mapping[str, float]:
        """Writes the round to disk. An error here prevents the release of the round."""
        facts = {}
        for name, value in metrics.items():
            last = name.rpartition("/")[2]
            if "dp_query_metrics/" in name and last in _RECORDED:
                facts[last] = float(value)
        if self._header.mechanism.is_adaptive and "clip_norm" not in facts:
            raise ValueError("The round's metrics have no clip norm, which the ledger must record.")
        self._ledger.record(round_num, content=self._content_tag(state), **facts)
        if not self._epsilon_every or round_num % self._epsilon_every:
            return {}
        total = total_guarantee(self._header, round_num)
        name = "privacy/epsilon"
        if self._header.noise_source == noise_key.FIXED_NONCE:
            name += "_simulation"
        elif self._header.noise_cohort_size:
            name += "_projection"
        return {name: math.inf if total is None else total.epsilon}
