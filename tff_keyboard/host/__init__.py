"""This process: its command line, progress, signals, child processes and quiet imports."""
