"""How each metric is called, shown and read; one table for text, CSV and HTML."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class MetricLabel:
    """Display of one metric.

    Attributes:
      name: As in `PREDICTOR_RATIOS` or `PERPLEXITIES`.
      label: A few words for a table.
      meaning: A sentence: what is counted over what.
      kind: "percent", "perplexity" or "ratio".
      better: "higher", "lower", or "" where neither is.
    """

    name: str
    label: str
    meaning: str
    kind: str = "percent"
    better: str = "higher"

    def format(self, value: float) -> str:
        """A value for people; percent without the sign."""
        return f"{100 * value:.2f}" if self.kind == "percent" else f"{value:.{self._digits}f}"

    @property
    def _digits(self) -> int:
        return 1 if self.kind == "perplexity" else 4


HEADLINES = (
    MetricLabel(
        "recall_at_1_no_eos",
        "top-1 recall",
        "words typed that were the first suggestion; OOV words count as missed",
    ),
    MetricLabel("recall_at_3_no_eos", "top-3 recall", "words typed that were on the strip of 3"),
    MetricLabel(
        "recall_at_1_words", "top-1 recall, in vocabulary", "the same over in-vocabulary words"
    ),
    MetricLabel(
        "recall_at_3_words", "top-3 recall, in vocabulary", "the same over in-vocabulary words"
    ),
    MetricLabel(
        "mrr_at_3_no_eos", "MRR@3", "mean of 1 / place on the strip, 0 if not on it", kind="ratio"
    ),
    MetricLabel(
        "kss",
        "keystrokes saved",
        "share of characters that need not be typed with a strip of 3; accepting is free",
    ),
    MetricLabel(
        "kss_selection_counted",
        "keystrokes saved, tap counted",
        "the same with one keystroke for each accepted suggestion",
    ),
    MetricLabel(
        "prediction_impression_recall",
        "impression recall",
        "next-word strips shown that held the word typed next",
    ),
    MetricLabel(
        "zero_state_recall", "zero-state recall", "the same for the first strip of a message"
    ),
    MetricLabel(
        "perplexity",
        "perplexity",
        "exp of the mean negative log-likelihood, over words, OOV and end of message",
        kind="perplexity",
        better="lower",
    ),
    MetricLabel(
        "perplexity_no_oov",
        "perplexity without OOV",
        "the same without OOV targets",
        kind="perplexity",
        better="lower",
    ),
    MetricLabel(
        "oov_rate", "out of vocabulary", "words typed that are not in the table", better=""
    ),
)
