"""Use of a user's memory by a run, and learning from the run."""
