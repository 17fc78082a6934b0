"""Answers over bundled data with errors planted by hand, and the material that they cite."""
