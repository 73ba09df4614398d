"""Rounds whose clients are devices: the loop, aggregation and privacy of `train`, over uploads."""
