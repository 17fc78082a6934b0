"""Rating of passages by how likely they answer a question: the measures, the fitted models and their training."""
