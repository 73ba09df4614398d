"""Measures the cost of each command until it prints something useful."""
