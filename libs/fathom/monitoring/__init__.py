"""Production watched by the graders of training: every run that a user asked for is graded when it has ended.

``fathom eval watch`` runs it. It follows the bus for the ends of runs, keeps in a bucket who grades which one, and
shows Prometheus the grades by grader and model, and what could not be graded.
"""
