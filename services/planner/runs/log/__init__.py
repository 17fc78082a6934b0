"""The log of a run on the bus: events for readers, and steps that any planner folds to resume the run."""
