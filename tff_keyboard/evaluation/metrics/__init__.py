"""The table of all metrics, and the counts that they are computed from."""
