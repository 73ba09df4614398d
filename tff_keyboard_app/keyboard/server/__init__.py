"""The keyboard page: a local web server and its access control."""
