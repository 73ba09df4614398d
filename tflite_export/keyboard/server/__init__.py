"""The keyboard page: a local web server, and who may use it."""
