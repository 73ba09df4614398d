"""The same model trained on a server that holds all text: what federation is measured against."""
