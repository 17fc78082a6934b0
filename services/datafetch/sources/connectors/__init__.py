"""Connectors to one vendor or kind of database each; see ``Connector`` in ``sources.base``."""
