"""Experiments on the core: studies, attacks, audits, benchmarks and one-off tools."""
