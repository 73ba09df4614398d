"""What a study leaves: rows, tables, curves, and where each comes from."""
