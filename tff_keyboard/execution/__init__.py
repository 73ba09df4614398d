"""Runs work on threads of this process, or on the nodes of a Ray cluster."""
