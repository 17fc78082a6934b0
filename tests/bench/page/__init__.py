"""Pictures of what the page shows, for a person to look at."""
