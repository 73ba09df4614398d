"""A network, an n-gram and the owner's own words behind one strip. NumPy only."""
