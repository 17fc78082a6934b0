"""Middle-term memory: turns as pages of segments by subject, recalled for a question."""
