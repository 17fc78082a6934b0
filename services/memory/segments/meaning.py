"""Nearness of meanings: of vectors without what an encoder gives to every text and to every text of a language."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
# The same in two languages, and else about nothing that is asked here: statements, questions, dates and replies.
PARALLEL = (
    ("The train leaves at noon.", "火车中午出发。"),
    ("She painted the fence green.", "她把篱笆漆成了绿色。"),
    ("The cat sleeps on the window sill.", "猫在窗台上睡觉。"),
    ("He bought an umbrella yesterday.", "他昨天买了一把雨伞。"),
    ("Where is the nearest station?", "最近的车站在哪里？"),
    ("How long does the film last?", "这部电影有多长？"),
    ("I will call you tomorrow morning.", "我明天早上给你打电话。"),
    ("Noted, I will keep that in mind.", "好的，我记住了。"),
    ("The price was 25 in 2015.", "2015年的价格是25。"),
    ("What did it cost at the end of last year?", "去年年底它要多少钱？"),
    ("You told me about it last week.", "你上周跟我说过这件事。"),
    ("Yes, that is possible.", "是的，可以。"),
    ("No, we do not have it.", "没有，我们没有这个。"),
    ("Which one is larger?", "哪一个更大？"),
    ("It fell by 12 percent in March.", "三月份下降了12%。"),
    ("Please show it as a table.", "请用表格显示。"),
)
# Below it a vector has no direction.
LEAST_NORM = 1e-9


@dataclass(frozen=True)
class Origin:
    """Common part of texts whatever they are about: the mean of all, and the direction of their language.

    A multilingual encoder puts a Chinese question nearer to any Chinese turn than to the English one that it is about.
    """

    mean: Floats
    language: Floats
    controls: Floats | None = None
    """Vectors of ``PARALLEL`` without the common part, which are about nothing that is asked; None where unknown."""

    @classmethod
    def from_parallel(cls, vectors: Floats) -> Self:
        """Find it in the vectors of the first halves of ``PARALLEL``, then of the second ones."""
        english, chinese = np.split(vectors, 2)
        found = cls(vectors.mean(axis=0), scale(english.mean(axis=0) - chinese.mean(axis=0)))
        return replace(found, controls=found.remove(vectors))

    def remove(self, vectors: Floats) -> Floats:
        """Return the vectors [n, dim] without it, of length 1."""
        moved = vectors - self.mean
        return scale(moved - np.outer(moved @ self.language, self.language))


def list_parallel() -> list[str]:
    """Return the texts whose vectors an ``Origin`` is found in, in its order."""
    return [text for column in zip(*PARALLEL, strict=True) for text in column]


def scale(vectors: Floats) -> Floats:
    """Return vectors of length 1; those without a direction stay as they are."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Floats = (vectors / np.where(length > LEAST_NORM, length, 1.0)).astype(np.float32)
    return scaled


def measure_nearness(vector: Floats, others: Floats, origin: Origin) -> Floats:
    """Return how near each of the others is: 0 as unrelated texts are, 1 the same."""
    near: Floats = (origin.remove(others) @ origin.remove(vector[None])[0]).clip(0.0, 1.0)
    return near
