"""Prompts, one file per version; a change is a new file."""
