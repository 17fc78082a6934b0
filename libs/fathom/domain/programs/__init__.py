"""Programs: calculations over series whose strings are words of a question, as text."""
