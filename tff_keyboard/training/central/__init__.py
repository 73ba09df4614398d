"""Central training of the same model on all text: the baseline of federated training."""
