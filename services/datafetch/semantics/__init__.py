"""The semantic layer of a user's own table: proposed from its columns, edited, and applied as series over time."""
