"""Bounds on what one client can do: broken, long and heavy deltas."""
