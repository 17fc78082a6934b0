"""Revisions of the memory service's tables, run by Alembic at the start of the service."""
