"""Rating of passages by how likely they answer a question: the measures, the fitted models and their training.

It stands in for reading, which a language model does itself. Results of tools carry no rating: every model would pay
for it in tokens, and it is of a whole question and all of a text that was read, not of a query and a hit.
"""
