"""Links that show an answer or a conversation to others, read only, until they end."""
