"""Tasks of an exported model."""
