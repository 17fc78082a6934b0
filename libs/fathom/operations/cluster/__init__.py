"""Cluster access for the command line: submitting and following training jobs, diagnosing why they wait.

``api`` talks to the API server, ``rayjob`` fills the release's template, ``following`` follows a job to its end,
``pending`` explains why one waits, ``scheduling`` what the scheduler says of it. Needs the extra ``cluster``.
"""
