"""Monitoring of a training run: metric loggers, collapse detection, and the HTML report."""
