"""Figures of the memory service."""
