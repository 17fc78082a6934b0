"""Questions about rows of a user's own tables: a sum, a mean or an extreme of those that cells and days choose."""
