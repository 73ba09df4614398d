"""The round server: devices' check-ins and uploads over HTTPS, on disk before they are answered."""
