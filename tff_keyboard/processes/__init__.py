"""Signals to this process, and processes that end with it."""
