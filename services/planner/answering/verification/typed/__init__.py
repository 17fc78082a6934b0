"""Statements as typed claims, written by a model and judged by calculation and by quotation."""
