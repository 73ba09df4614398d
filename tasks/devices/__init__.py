"""Rounds with devices: the server, a device, and what is going on."""
