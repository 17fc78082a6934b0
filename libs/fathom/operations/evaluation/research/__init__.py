"""DeepResearch Bench: whole reports, graded by the criteria of its tasks and by what they cite."""
