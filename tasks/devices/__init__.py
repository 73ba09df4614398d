"""Tasks for training with devices: server, device, status."""
