"""The client store: preparing, writing and reading it."""
