"""Part of a reply that callers have been shown, so that a reply that is asked for again goes on where it broke off."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ShownText:
    """One text of a reply over all attempts. After a restart it stays silent until it has caught up."""

    shown: list[str] = field(default_factory=list)
    behind: str = ""
    """Text that was shown and that the present attempt has not repeated yet."""
    has_diverged: bool = False

    def add(self, piece: str) -> str:
        """Return what of the piece is new to callers; nothing more once the attempt differs from what was shown."""
        if self.has_diverged:
            return ""
        common = min(len(piece), len(self.behind))
        if piece[:common] != self.behind[:common]:
            self.has_diverged = True
            return ""
        self.behind, new = self.behind[common:], piece[common:]
        if new:
            self.shown.append(new)
        return new

    def restart(self) -> None:
        self.behind = "".join(self.shown)


@dataclass
class ShownReply:
    """Text and thoughts of a reply that callers have been shown."""

    text: ShownText = field(default_factory=ShownText)
    thought: ShownText = field(default_factory=ShownText)

    @property
    def has_begun(self) -> bool:
        return bool(self.text.shown or self.thought.shown)

    def add_text(self, piece: str) -> str:
        return self.text.add(piece)

    def add_thought(self, piece: str) -> str:
        return self.thought.add(piece)

    def restart(self) -> None:
        """Begin with a further attempt."""
        self.text.restart()
        self.thought.restart()
