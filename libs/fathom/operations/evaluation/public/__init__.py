"""Public question sets: their rows, the metrics of their authors, and the report of a run."""
