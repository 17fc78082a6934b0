"""Output of the commands about runs, memory and judgements."""
