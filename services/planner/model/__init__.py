"""Data of an episode and the interfaces around it; imports nothing else of the planner."""
