"""Word lists of keyboards that descend from AOSP, and their lookup, simulated."""
