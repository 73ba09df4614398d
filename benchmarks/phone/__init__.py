"""Times what a phone does with an export."""
