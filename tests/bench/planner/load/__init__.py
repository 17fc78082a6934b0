"""Benchmarks of what the planner itself costs, and of many callers at once."""
