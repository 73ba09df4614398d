"""Times many clients, many nodes and many rounds."""
