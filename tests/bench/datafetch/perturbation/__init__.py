"""The same question asked otherwise: other spellings of dates and units, short names, typos, relative periods, colloquial
words, other phrasing. Deterministic by seed.

What stays valid of the expected cells, by kind of change:

- ``dates``, ``names``, ``phrasing``: all of them, unchanged. Only the spelling differs.
- ``typos``: all of them, as long as an understanding that mends one slip is asked for; the misspelt name is never the
  name of something else that was given.
- ``colloquial``: all of them; the words are in two lists, ``fit`` to look at and ``held`` to report on.
- ``relative``: all of them, if the question is asked with the variant's ``as_of`` ("last year" needs a today). Nothing
  may be expected that was published later than that.
- ``units``: the same numbers in the unit that the variant's ``unit`` names: divide a value in the base unit by ``scale``.
  A judge that compares number and unit together (``datafetch_scoring.same``) needs no change.

A question whose answer is that something is missing keeps that answer under ``phrasing`` only: a respelt name would be
another missing subject, and a respelt impossible day another day.
"""

from tests.bench.datafetch.perturbation.model import Asked, Kind, Thing, Variant
from tests.bench.datafetch.perturbation.variants import of_finglm, of_gold, perturb, variants

__all__ = ["Asked", "Kind", "Thing", "Variant", "of_finglm", "of_gold", "perturb", "variants"]
