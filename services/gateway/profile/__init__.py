"""Routes of what is remembered of the caller, and of what the caller says of answers."""
