"""Tagging of a question's words by what they are for, by a head over the encoder's states made from examples."""
