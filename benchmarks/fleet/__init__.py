"""A fleet of devices on one machine: what goes wrong with devices, and what a server holds."""
