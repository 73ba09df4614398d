"""Where text comes from: files, other stores, synthetic typists."""
