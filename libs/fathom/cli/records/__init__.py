"""What commands print and write of runs, memory and judgements."""
