"""The fixed pipeline: rewrite, plan, collect, reflect once, answer."""
