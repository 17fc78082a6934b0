"""Names of a user's own tables in the words of a question: whose, what is measured, and how a period adds up."""
