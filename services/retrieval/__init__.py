"""Retrieval service: search returns titles and summaries of documents, fetch returns their text.

It never answers a question, and a search never returns full text.
"""
