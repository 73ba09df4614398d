"""A fleet of devices on one machine: failures and attacks of devices, and the load of a server."""
