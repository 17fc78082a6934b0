"""Long-term memory of one user: facts that may be edited, and the views that answers took."""
