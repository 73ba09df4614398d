"""Federated rounds over HTTPS: wire protocol, round server, device, secure sums."""
