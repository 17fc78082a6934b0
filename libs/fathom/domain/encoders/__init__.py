"""Text encoders, local and remote, behind one protocol."""
