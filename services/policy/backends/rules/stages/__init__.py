"""Reference policy in the stages of a workflow."""
