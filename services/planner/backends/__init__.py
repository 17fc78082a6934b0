"""Adapters of the planner loop to other services."""
