"""The planner's commands: ``fathom prompt`` and ``fathom mcp``."""
