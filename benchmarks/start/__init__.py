"""What a command costs until its user has something."""
