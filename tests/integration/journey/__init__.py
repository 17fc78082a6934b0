"""The way of an operator with a release, from its installation to its end, on a real cluster or the simulated one.

``make cluster-test KUBECONFIG=FILE`` walks it on a cluster, without KUBECONFIG on the simulated one, and writes a report
in which each step was seen, failed, or was not seen, with the reason.
"""
