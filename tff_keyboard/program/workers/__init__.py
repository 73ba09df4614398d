"""TFF worker processes of this machine."""
