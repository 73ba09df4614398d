"""Flags from the fields of a dataclass (`tasks/options.py` shows them), output that lasts."""
