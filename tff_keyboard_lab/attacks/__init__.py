"""Simulated attacks by clients, to measure the robustness of aggregators.

Never used in training.
"""
