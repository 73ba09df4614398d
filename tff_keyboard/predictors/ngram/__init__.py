"""N-gram models, the baselines of federated training. NumPy only."""
