"""How conversations show their tables: under which title, and whether first."""
