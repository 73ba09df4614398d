"""Which metrics of a private training may be released.

An allow list: whatever is not on it is withheld, a metric that somebody adds tomorrow included.
"""

# Known to everybody who has the config, or noised by the mechanism, or computed from the released
# models alone (post-processing), or about other people (validation; the statement says so).
_NAMES = frozenset({"clients_selected", "rejected"})
_BEGINNINGS = ("evaluation/", "finalizer/", "privacy/")
_PARTS = ("dp_query_metrics/",)


def is_public(name: str) -> bool:
    """Whether a private run may release the metric of this name.

    >>> is_public("evaluation/perplexity"), is_public("client_work/train/nll"), is_public("clients")
    (True, False, False)
    """
    known = name in _NAMES or name.startswith(_BEGINNINGS)
    return known or any(part in name for part in _PARTS)
