"""Runs many clients in one TensorFlow call, for any TFF learning process."""
