"""A typed claim: what some words of a statement say, in a form that can be computed or looked up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fathom.core.errors import InvalidField

# An answer with more claims than this is a list; what follows is not read.
MOST_CLAIMS = 200
TEXTS = ("words", "formula", "number", "quote", "against", "said_unit", "held_unit")
COPIED = ("words", "number", "said_unit")
# Words of a statement or of a document: no claim needs more.
MOST_CHARACTERS = 2_000
CITATION = re.compile(r"\[\d+(?:\s*[,，]\s*\d+)*\](?!\w)")


class Form(StrEnum):
    """Form of a claim."""

    FORMULA = "formula"
    """A comparison that is computed, or a calculation that gives the stated number."""
    STATED = "quote"
    """Content of a document: a cause, a motive, an event, a number."""
    UNIT = "said_unit"
    """The statement's number is in another unit than the material's."""


class Comparison(StrEnum):
    """Relation of a calculation to the stated number."""

    EQUALS = "equals"
    ABOUT = "about"
    MORE = "more"
    LESS = "less"


@dataclass(frozen=True)
class TypedClaim:
    """One claim of the statement of a number, counted from 1; ``words`` are the statement's own that it renders.

    ``number`` are the statement's words for a stated number with its unit, ``quote`` the words of a document that give
    what is claimed, "" where none does, ``against`` those that say otherwise. ``flaw`` says why a claim cannot be read.
    """

    statement: int
    form: Form = Form.FORMULA
    words: str = ""
    formula: str = ""
    number: str = ""
    comparison: Comparison = Comparison.EQUALS
    quote: str = ""
    against: str = ""
    said_unit: str = ""
    held_unit: str = ""
    flaw: str = ""


def read_claims(data: Mapping[str, Any]) -> list[TypedClaim]:
    """Return the claims of a model's reply, those of another form with their flaw; raise ``InvalidField`` for no list.

    A claim that does not even name its statement is left out.
    """
    listed = data.get("claims")
    if not isinstance(listed, list):
        raise InvalidField("claims", "is no list")
    out = []
    for place, one in enumerate(listed[:MOST_CLAIMS]):
        statement = one.get("statement") if isinstance(one, Mapping) else None
        # JSON's true is an int in Python.
        if not isinstance(statement, int) or isinstance(statement, bool):
            continue
        try:
            out.append(read_claim(one, statement, f"claims[{place}]"))
        except InvalidField as error:
            out.append(TypedClaim(statement, flaw=str(error)))
    return out


def read_claim(data: Mapping[str, Any], statement: int, name: str) -> TypedClaim:
    """Return one claim; raise ``InvalidField`` naming the place in the reply."""
    texts = {key: read_text(data, key, name) for key in TEXTS}
    # A statement is copied with its citations, which are no words of it.
    texts |= {key: CITATION.sub("", texts[key]).strip() for key in COPIED}
    forms = [form for form in Form if texts[form]]
    # Where no document gives it, the quotation is empty.
    if not forms and (Form.STATED in data or texts["against"]):
        forms = [Form.STATED]
    if len(forms) != 1:
        raise InvalidField(name, f"has {len(forms)} of {', '.join(Form)}; one is wanted")
    try:
        comparison = Comparison(data.get("compare") or Comparison.EQUALS)
    except ValueError as error:
        raise InvalidField(f"{name}.compare", f"is none of {', '.join(Comparison)}") from error
    return TypedClaim(statement, forms[0], comparison=comparison, **texts)


def read_text(data: Mapping[str, Any], key: str, name: str) -> str:
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        raise InvalidField(f"{name}.{key}", f"is no text of at most {MOST_CHARACTERS} characters")
    return value.strip()
