"""Errors of measures. Code inside the jail has no part in the services' own errors."""

from __future__ import annotations


class InvalidArgument(ValueError):
    """An argument is wrong; ``argument`` is its name, and the text begins with it."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(f"{argument}: {message}")
        self.argument = argument


class BrokenInvariant(ArithmeticError):
    """A result lies beyond what it can be: a defect of the library, not of its input."""
