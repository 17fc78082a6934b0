"""Coverage of a question by its answer: what is asked, what the material fills, what stays open."""
