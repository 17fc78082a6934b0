"""Benchmarks of the policy service: speed of the engines, exactness of what was sampled, new weights."""
