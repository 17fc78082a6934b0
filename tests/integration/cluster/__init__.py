"""A cluster of one node, made of Linux namespaces: runs what the chart renders as it is rendered.

Every pod has an address, a host name, a root, volumes, a user and processes of its own, so that no port, path, host,
command, argument or setting of a manifest is changed. What is not as on a cluster stands in two places:
``images.STAND_INS`` (what is inside the images) and ``manifests.NOT_SIMULATED`` (fields without effect here).
"""
