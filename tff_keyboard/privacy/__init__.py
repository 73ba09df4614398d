"""What a run guarantees: accounting, the ledger and the statement. Imports no TensorFlow."""
