"""Fathom's services: one package each, none of which imports another."""
