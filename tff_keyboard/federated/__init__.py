"""What builds a federated process: aggregation, learning, algorithms."""
