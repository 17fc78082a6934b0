"""``fathom doctor``: what a machine or a cluster lacks, and how to mend it."""
