"""Where a run is computed, and what travels to the nodes of a cluster instead of text."""
