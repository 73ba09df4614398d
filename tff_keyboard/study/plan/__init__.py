"""The file of a study, and the runs it asks for."""
