"""Context window management: selection and compaction of the episode's messages for each request."""
