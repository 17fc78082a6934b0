"""Training data of the workflow's stages: rewriting, planning, reflection, answers, repairs, evolved questions.

Each step is a list of tasks (``running.py``) whose rows (``record.py``) say what they were made from, by which models
and instructions, and whether a person has to look at them.
"""
