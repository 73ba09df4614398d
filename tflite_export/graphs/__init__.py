"""A trained CIFG as a TFLite graph: converted, or built tensor by tensor."""
