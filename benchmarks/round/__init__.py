"""Times a federated round, beside other programs that compute the same."""
