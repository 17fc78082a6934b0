"""What is said of a training while it runs and afterwards: logs, collapse, report."""
