"""Translation of questions into programs by a learned reader: what to compute, step by step, over which series."""
