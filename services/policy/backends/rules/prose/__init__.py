"""The text of answers: phrases, formats, missing data, and the whole as Markdown."""
