"""Tasks with verifiable answers over the bundled data (row Z02), split by scenario.

``search`` asks for what one document says, ``code`` for what must be computed, ``table`` for what stands in the tables.
Every answer is computed from the data when a task is made, none is typed; the same data, seed and count give the
same tasks. A task names the grader that judges it, the tools that it is about, and a path of calls that solves it.
"""
