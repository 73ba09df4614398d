"""The protocol that a round server and a device share: messages, plans, weights, keys, tokens."""
