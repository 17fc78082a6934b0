"""The ``fathom`` command. Each command imports what it needs when it runs, so that ``--help`` stays fast."""
