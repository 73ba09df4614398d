"""The file of a study, and its runs."""
