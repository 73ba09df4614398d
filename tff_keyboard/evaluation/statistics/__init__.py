"""From sums per person to figures with intervals, and how many people a test needs."""
