"""Report of trainings: the files that a training writes, their reduction to curves, and the page that shows them.

Trainers write (``fathom.trainers.monitor``), the gateway and ``fathom report`` read; both from any object store.
"""
