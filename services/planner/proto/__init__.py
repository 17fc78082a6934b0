"""Conversion between the planner's data and ``planner.v1`` messages."""
