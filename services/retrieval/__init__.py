"""Retrieval: finds documents and reads them. Search gives titles and summaries, fetch gives the text.

It never answers a question, and a search never returns full text.
"""
