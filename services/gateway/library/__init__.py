"""Subjects of questions: the analysis frameworks and the names of the catalogue."""
