"""The tools of an episode: each one a schema and a call of a service; ``intent`` is added by the registry."""
