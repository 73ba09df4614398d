"""Builds a trained CIFG as a TFLite graph, with the converter or tensor by tensor."""
