"""From a config to a run directory with a trained model; the top floor of the library."""
