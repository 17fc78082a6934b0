"""Routes of what people decide on: queues of items, and their decisions."""
