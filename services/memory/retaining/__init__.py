"""How long memory is kept, and what a user or a tenant may have of it: retention, export, erasure."""
