"""Routes of what is remembered of the caller."""
