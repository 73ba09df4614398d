"""The tables of a run's config, one module each."""
