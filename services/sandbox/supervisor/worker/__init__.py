"""Handles to the processes of the jail: fork server, init process and worker with its pipes and its hostile reports."""
