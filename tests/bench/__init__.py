"""Benchmarks: each prints figures and a ratio against a named baseline of the same run."""
