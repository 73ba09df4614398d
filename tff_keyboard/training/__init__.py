"""From a config to a run directory with a trained model; the top floor of the library.

`train_run.train_run` is the one assembly of a training; `federated` and `central` are two sets of
parts for it.
"""
