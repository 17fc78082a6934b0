"""Benchmarks of the planner: the loop, the window, whole answers and their check."""
