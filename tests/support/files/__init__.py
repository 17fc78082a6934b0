"""Files as users bring them."""
