"""What a keyboard may tell of its strip without telling what is typed: events, counts, replay."""
