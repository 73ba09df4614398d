"""Measures the gain of attackers under the default settings, and the cost of stricter defaults."""
