"""Retention, export and erasure of the memory of a user or a tenant."""
