"""What a keyboard can report about its strip without revealing the text: events, counts, replay."""
