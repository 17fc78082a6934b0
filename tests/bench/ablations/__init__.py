"""Parts of the planner measured by leaving them out, and the questions and the model for that."""
