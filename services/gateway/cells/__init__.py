"""Cells of an answer's code, run again in a session of the sandbox that ends with them."""
