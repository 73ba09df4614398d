"""Training on the phone, on one user's messages, and its benefit over many users."""
