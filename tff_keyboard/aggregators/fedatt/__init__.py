"""Attentive aggregation (Ji et al. 2019) and its private form."""
