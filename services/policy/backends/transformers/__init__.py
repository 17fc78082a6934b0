"""Causal language models in this process: torch on the CPU, float32, one dedicated thread."""
