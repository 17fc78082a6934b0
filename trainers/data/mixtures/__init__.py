"""Stage data as training files: exported with token ids, mixed in shares, with their lengths reported and enforced."""
