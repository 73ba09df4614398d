"""N-gram models that federated training has to beat. NumPy only."""
