"""What must hold before a file appears, and what whoever receives it can check."""
