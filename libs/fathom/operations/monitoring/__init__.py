"""Production monitoring with the graders of training: every finished user run is graded.

Run by ``fathom eval watch``. It follows the bus for run-finished events, claims each run in a bucket so that one copy
grades it, and exports to Prometheus the grades by grader and model, and the runs that could not be graded.
"""
