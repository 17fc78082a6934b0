"""Model versions: the manifests under which weights are published, exact differences, and which version is served."""
