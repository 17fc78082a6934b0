"""Prompts of the judge, one file per style, version and language; a change is a new version."""
