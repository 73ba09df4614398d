"""Reports of a keyboard about its strip that reveal no text: events, counts, replay."""
