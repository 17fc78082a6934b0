"""Encoders: models of this machine and remote ones behind one protocol."""
