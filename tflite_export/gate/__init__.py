"""Checks before an export is written, and checks for its recipient."""
