"""Own tables and documents for runs: sent to a gateway, and what the columns of tables mean."""
