"""Prompt files, one per version; a change is a new file."""
