"""Checks of one kind of statement each: numbers, dates, events and claims, cells of tables."""
