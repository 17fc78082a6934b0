"""What a user's memory gives to a run, and what a run leaves in it."""
