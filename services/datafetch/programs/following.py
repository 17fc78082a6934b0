"""Programs that somebody else has written, such as a language model: checked, and their series linked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.core.errors import InvalidField
from fathom.domain.programs.language import BEGIN, CLOSE, END, INDEX, NO_SERIES, SPAN, Action, Call, list_actions
from fathom.services.datafetch.programs.conversation import Conversation, Stretch
from fathom.services.datafetch.programs.search import MOST_TOKENS, Decoder, Path

SERIES = "series"


def follow(decoder: Decoder, conversation: Conversation, steps: Sequence[Call]) -> Path:
    """Return the path of a program, written by the network as if it were its own, so that it links the series.

    Raises ``InvalidField("program")`` where the automaton does not allow it, where its words are none of the
    conversation, and for one that is too long.
    """
    actions = list_actions(steps)
    if len(actions) > MOST_TOKENS:
        raise InvalidField("program", f"has {len(actions)} parts, at most {MOST_TOKENS} are allowed")
    path, scores = Path(), decoder.advance([0], [INDEX[BEGIN]], [None])
    for action in actions:
        if action.token not in path.state.next_tokens:
            raise InvalidField("program", f"{action.token!r} may not stand there")
        quoted: Stretch | None = None
        before = path
        if action.token == SPAN:
            quoted = find_words(conversation, action)
            path = replace(path, quoted=(*path.quoted, quoted))
        elif action.token.endswith("("):
            path = replace(path, quoted=())
        elif action.token == CLOSE and path.state.stack[-1][0] == SERIES:
            action, chance = link(decoder, path, action)
            path = replace(path, link=min(path.link, chance))
        path = replace(
            path,
            score=before.score + float(scores[0, INDEX[action.token]]),
            actions=(*before.actions, action),
            state=before.state.push(action.token),
        )
        scores = decoder.advance([0], [INDEX[action.token]], [quoted])
    if END not in path.state.next_tokens:
        raise InvalidField("program", "is not finished")
    return replace(path, score=path.score + float(scores[0, INDEX[END]]))


def find_words(conversation: Conversation, action: Action) -> Stretch:
    """Return where the words that an action quotes stand; raise ``InvalidField("program")`` for none."""
    found = conversation.find_stretch(action.text or "")
    if found is None:
        raise InvalidField("program", f"{action.text!r} does not stand in the question")
    return found


def link(decoder: Decoder, path: Path, action: Action) -> tuple[Action, float]:
    """Return the end of a series with its id, and how sure that is; an id ``none`` is its author's and stays."""
    if action.target == NO_SERIES:
        return action, 1.0
    target, chance = decoder.link(0, path.quoted)
    return Action(CLOSE, target=target or NO_SERIES), chance
