"""The implicit process reward (PRIME): its torch maths, shared by the reward service and the trainers.

Formulas: arXiv 2412.01981 (implicit process reward), 2502.01456 (PRIME). Every module here but this one imports torch,
so a service imports them only when such a reward is requested.
"""
