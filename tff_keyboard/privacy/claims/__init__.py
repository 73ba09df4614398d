"""Guarantees and statements about a finished, running or planned run."""
