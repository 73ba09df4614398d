"""Times an exported model as a phone would run it."""
