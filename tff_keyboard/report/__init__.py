"""What people look at: comparisons with verdicts, tables, one HTML page."""
