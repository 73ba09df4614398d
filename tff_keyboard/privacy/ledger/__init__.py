"""What a run records: what every round cost, who took part, what the run's model has seen."""
