"""Paragraphs of answers that no calculation gives: the overview of the data, and the hand-off of other questions."""
