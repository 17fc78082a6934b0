"""Work on a run that was taken from the queue: preparing, playing and ending a leg, and waits and losses meanwhile."""
