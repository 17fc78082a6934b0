"""Entries of the index of runs, by which they are listed without reading their records."""
