"""The metrics that a private training may release.

This is an allow list: metrics that are not on it, including any future ones, are withheld.
"""

# Known from the config, noised by the mechanism, computed from the released models alone
# (post-processing), or about other clients (validation; the statement says so).
_NAMES = frozenset({"clients_selected", "rejected"})
_BEGINNINGS = ("evaluation/", "finalizer/", "privacy/")
_PARTS = ("dp_query_metrics/",)


def is_public(name: str) -> bool:
    """Checks if a private run may release the metric `name`.

    >>> is_public("evaluation/perplexity"), is_public("client_work/train/nll"), is_public("clients")
    (True, False, False)
    """
    known = name in _NAMES or name.startswith(_BEGINNINGS)
    return known or any(part in name for part in _PARTS)
