"""Questions that are asked again every day, week or month, and what has changed since the time before."""
