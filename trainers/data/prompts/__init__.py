"""Instructions of training prompts, one file per version and language; a change is a new file."""
