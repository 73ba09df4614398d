"""What may be said of a run, or of one that is planned: guarantees and statements."""
