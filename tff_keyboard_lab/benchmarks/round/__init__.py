"""Times a federated round, next to other programs that compute the same."""
