"""The round server: answers check-ins and uploads over HTTPS, after writing them to disk."""
