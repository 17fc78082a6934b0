"""Passages that answer a question: how likely each does, which of a document is quoted, and files of alike names.

It measures and quotes what a search has found, for whoever has the question and the text; results of tools carry no
rating, since every model would pay for it in tokens.
"""
