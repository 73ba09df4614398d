"""Reports of a keyboard about its strip, as sums: counts, event log, replay."""
