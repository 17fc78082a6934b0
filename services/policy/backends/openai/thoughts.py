"""Separation of thoughts in tags from the text of a reply, while it streams."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fathom.domain.chat.hermes import OPEN as TOOL_CALL

# DeepSeek R1 and Qwen write think, some others thinking, Gemini's compatible endpoint thought.
OPENING = re.compile(r"<(?:think|thinking|thought)>", re.IGNORECASE)
CLOSING = re.compile(r"</(?:think|thinking|thought)>", re.IGNORECASE)
EITHER = re.compile(f"{OPENING.pattern}|{CLOSING.pattern}", re.IGNORECASE)
LONGEST = len("</thinking>")


@dataclass(frozen=True)
class Piece:
    """A piece of a reply: text, or a part of a thought."""

    text: str = ""
    thought: str = ""


class ThoughtSplitter:
    """Incremental splitter of content. With ``inside`` the content begins within a thought whose tag was not sent.

    Work grows with the content's length alone. Line breaks between a thought and the text belong to neither.
    """

    def __init__(self, *, inside: bool = False) -> None:
        self._inside = self._assumed = inside
        self._held = ""
        self._trim = True
        self._text: list[str] = []
        self._thought: list[str] = []
        self.is_unopened = False
        """True when a thought was closed that had no opening tag: everything before was a thought."""

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        return "".join(self._thought)

    def feed(self, content: str) -> list[Piece]:
        """Return the pieces that ``content`` adds; the beginning of a possible tag is held back."""
        self._held += content
        pieces: list[Piece] = []
        while match := (CLOSING if self._inside else EITHER).search(self._held):
            before, self._held = self._held[: match.start()], self._held[match.end() :]
            if not self._inside and CLOSING.fullmatch(match.group()):
                self._make_thought(before)
                continue
            pieces += self._add(before)
            self.is_unopened |= self._assumed
            self._inside, self._assumed, self._trim = not self._inside, False, True
        # A tag may go on in the next piece; without one, only a few characters are ever held back.
        keep = self._held.rfind("<", max(0, len(self._held) - LONGEST))
        ready = self._held if keep < 0 else self._held[:keep]
        self._held = self._held[len(ready) :]
        return pieces + self._add(ready)

    def end(self) -> list[Piece]:
        """Return the rest at the end of the content."""
        rest, self._held = self._held, ""
        if not self._inside:
            return self._add(rest)
        whole = self.thinking + rest
        # Without a closing tag, an assumed thought was the text. Behind a thought that was never closed a call counts:
        # the model forgot the tag, not the call.
        at = 0 if self._assumed else whole.find(TOOL_CALL)
        if at < 0:
            return self._add(rest)
        self._thought, self._inside, self._trim = [whole[:at]], False, True
        return self._add(whole[at:])

    def _make_thought(self, before: str) -> None:
        """Make a thought of everything so far."""
        self._thought += [*self._text, before]
        self._text = []
        self.is_unopened = self._trim = True

    def _add(self, content: str) -> list[Piece]:
        if self._trim:
            content = content.lstrip()
        if not content:
            return []
        self._trim = False
        (self._thought if self._inside else self._text).append(content)
        return [Piece(thought=content) if self._inside else Piece(text=content)]
