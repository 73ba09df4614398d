"""Processes that compute rounds, and the processes that are wrapped around them."""
