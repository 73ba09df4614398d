"""Federated algorithms: client work, aggregator and builder of each side by side."""
