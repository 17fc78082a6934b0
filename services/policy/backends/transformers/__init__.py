"""Causal language models in this process, with torch in one dedicated thread."""
