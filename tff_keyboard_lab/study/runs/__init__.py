"""A study's runs: training, evaluation, and cost."""
