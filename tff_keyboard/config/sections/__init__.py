"""The tables of a run's config, in one module each."""
