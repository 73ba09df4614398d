"""Reports: comparisons with verdicts, tables, and one HTML page."""
