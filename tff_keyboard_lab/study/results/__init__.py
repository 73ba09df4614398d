"""Results of a study: rows, tables, curves, and their provenance."""
