"""Code that commands share: flags, exit codes, and models named on the command line."""
