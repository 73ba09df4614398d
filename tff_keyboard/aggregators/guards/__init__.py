"""Bounds on the influence of one client: broken, long and heavy updates."""
