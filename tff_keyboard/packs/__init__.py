"""Many clients in one TensorFlow call, for any TFF learning process; knows nothing of ours."""
