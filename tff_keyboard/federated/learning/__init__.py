"""Learning processes and federated evaluation, on TensorFlow Federated."""
