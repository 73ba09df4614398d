"""Word lists of AOSP's keyboard and its descendants, and a simulation of their lookup."""
