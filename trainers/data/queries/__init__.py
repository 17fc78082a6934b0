"""Questions for training: collected and synthesised, without near duplicates, rated, with noise, in fixed shares.

Each step reads and writes the same rows (``record.py``), which say where a question is from and what was done to it.
"""
