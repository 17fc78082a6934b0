"""PRIME (arXiv 2502.01456): an implicit process reward model trained beside the policy; no critic."""
