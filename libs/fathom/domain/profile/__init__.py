"""Memory of a user: kinds of facts with their values, and the lines in which prompts show them."""
