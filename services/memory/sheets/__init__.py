"""Views that conversations have of their tables: the title, and whether a table stands first."""
