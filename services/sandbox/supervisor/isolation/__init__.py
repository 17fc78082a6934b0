"""Isolation that this machine allows: one session is built and attacked at start, and a remedy named for what fails."""
