"""Flags made from the fields of a dataclass; `tasks/options.py` shows what that looks like."""
