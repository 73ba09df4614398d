"""Records of a run: the privacy cost of each round, its participants, and the model's ancestors."""
