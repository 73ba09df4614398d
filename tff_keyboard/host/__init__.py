"""This process: its command line, progress, signals, children, quiet imports."""
