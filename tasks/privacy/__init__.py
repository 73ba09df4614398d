"""Tasks that say what a run may claim, and what its model shows."""
