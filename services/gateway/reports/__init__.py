"""Answers as files to take away: Markdown, a page that stands alone, Word."""
