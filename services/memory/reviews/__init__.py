"""Queues of items that people decide on before they count or train."""
