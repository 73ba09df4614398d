"""Exports a trained model to the files for a phone."""
