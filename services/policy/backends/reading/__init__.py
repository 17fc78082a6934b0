"""A small language model that reads questions, behind which the reference policy does all else."""
