"""The device's side of a round: cache, eligibility, training, exchange with the round server."""
