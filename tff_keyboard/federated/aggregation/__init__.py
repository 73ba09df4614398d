"""How client deltas become one server delta: TFF aggregation factories, chosen by name."""
