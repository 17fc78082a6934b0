"""Tools of an episode: each is a JSON schema and a service call; the registry adds ``intent``."""
