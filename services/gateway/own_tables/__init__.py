"""Own tables beyond their rows: what their columns mean, and rows as passages that can be found and quoted."""
