"""What a round server and a device both know: messages, plans, weights, keys, tokens."""
