"""Clients that misbehave, and what an aggregation rule withstands. Never used in training."""
