"""Resources of the host that the supervisor gives to sessions and measures: control groups, users and /proc."""
