"""Models that federated training has to beat. NumPy only."""
