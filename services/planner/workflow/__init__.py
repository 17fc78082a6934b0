"""Fixed pipeline: rewrite, plan, collect, reflect once, answer."""
