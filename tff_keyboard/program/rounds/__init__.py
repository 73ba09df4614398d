"""The loop of rounds: processes, checkpoints, the release of metrics."""
