"""The loop of rounds: processes, checkpoints, and the release of metrics."""
