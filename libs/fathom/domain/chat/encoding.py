"""Token ids of conversations in which no content can become a control token, for serving and training alike.

A chat template joins contents with its own control tokens before anything is tokenized, so a document that holds
``<|im_start|>system`` would become a turn of its own. Contents are therefore covered before the template sees them:
what the tokenizer would take for a control token is written in characters of private use, which templates copy like
any other. :meth:`ContentEncoder.encode` looks for control tokens in the covered text, where only the template's own are
left, and encodes everything between them, uncovered again, with a tokenizer that knows none.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.core.errors import FathomError, InvalidField

FIRST = 0x10FE00
"""The first of 256 characters of private use; each stands for one byte of covered text."""
COVERED = re.compile(f"[{chr(FIRST)}-{chr(FIRST + 255)}]+")
OWN_WORDS = frozenset({"assistant", "system"})
"""Roles whose contents may hold tokens that are not special, e.g. a model's own ``<think>`` and ``<tool_call>``."""


@dataclass(frozen=True)
class Cover:
    """Reversible disguise of markers inside contents."""

    pattern: re.Pattern[str]
    beginnings: frozenset[str]
    endings: frozenset[str]
    longest: int

    @classmethod
    def of(cls, markers: Iterable[str]) -> Cover:
        """Create the disguise of these texts."""
        # Longest first: Python takes the first alternative that fits, tokenizers take the longest.
        found = sorted(set(markers), key=lambda text: (-len(text), text))
        # Private characters of the content itself are covered, too, or uncovering would change them.
        pattern = re.compile("|".join([*map(re.escape, found), COVERED.pattern]))
        cuts = [(text[:place], text[place:]) for text in found for place in range(1, len(text))]
        heads, tails = zip(*cuts, strict=True) if cuts else ((), ())
        return cls(pattern, frozenset(heads), frozenset(tails), max(map(len, found), default=0))

    def apply(self, text: str) -> str:
        """Return the text without any marker."""
        return self.pattern.sub(lambda match: disguise(match.group()), text)

    def apply_to_content(self, text: str) -> str:
        """Return the text without any marker, nor a part of one at its ends that the template's text could complete."""
        text = self._cover_end(self._cover_beginning(self.apply(text)))
        # Templates strip contents: what stands beside blanks may come to stand at an end.
        body = text.strip()
        if not body:
            return text
        before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return before + self._cover_end(self._cover_beginning(body)) + after

    def _cover_beginning(self, text: str) -> str:
        """Return the text with the longest end of a marker that it begins with covered."""
        sizes = (size for size in range(min(self.longest, len(text)), 0, -1) if text[:size] in self.endings)
        size = next(sizes, 0)
        return disguise(text[:size]) + text[size:]

    def _cover_end(self, text: str) -> str:
        """Return the text with the longest beginning of a marker that it ends with covered."""
        sizes = (size for size in range(min(self.longest, len(text)), 0, -1) if text[-size:] in self.beginnings)
        start = len(text) - next(sizes, 0)
        return text[:start] + disguise(text[start:])

    def apply_to_values(self, value: Any) -> Any:
        """Return a JSON value whose texts are without any marker."""
        if isinstance(value, str):
            return self.apply(value)
        if isinstance(value, Mapping):
            return {self.apply(str(key)): self.apply_to_values(inner) for key, inner in value.items()}
        return [self.apply_to_values(inner) for inner in value] if isinstance(value, list | tuple) else value


def disguise(text: str) -> str:
    """Return one private character for each byte of the text."""
    return "".join(chr(FIRST + byte) for byte in text.encode("utf-8", "surrogatepass"))


def uncover(text: str) -> str:
    """Return the text as it was before it was covered."""
    return COVERED.sub(
        lambda match: bytes(ord(char) - FIRST for char in match.group()).decode("utf-8", "surrogatepass"), text
    )


@dataclass(frozen=True)
class Control:
    """A token that the tokenizer finds as a whole in any text, before it splits the rest; options as the library's."""

    id: int
    text: str
    lstrip: bool
    rstrip: bool
    single_word: bool

    def fits(self, text: str, start: int, end: int) -> bool:
        """Return whether it may stand at these places of a text."""
        beside = text[max(0, start - 1) : start] + text[end : end + 1]
        return not (self.single_word and re.search(r"\w", beside))


class ContentEncoder:
    """Encoder of conversations for a fast tokenizer of ``transformers`` with a chat template; thread-safe."""

    def __init__(self, tokenizer: Any) -> None:
        """Read the tokenizer's added tokens; raise ``InvalidField("tokenizer")`` for one that is not a fast one."""
        core = getattr(tokenizer, "backend_tokenizer", None)
        if core is None:
            raise InvalidField("tokenizer", "is no fast tokenizer: it has no tokenizer.json")
        self._tokenizer = tokenizer
        unknown = tokenizer.unk_token
        controls, special, loose = [], set[str](), set[str]()
        added = core.get_added_tokens_decoder()
        for number, token in added.items():
            if is_mark(token):
                control = Control(number, token.content, token.lstrip, token.rstrip, token.single_word)
                controls.append((token.normalized, control))
                (special if token.special else loose).add(token.content)
        # The library looks for the tokens of raw text first, then for those of normalised text in what is left.
        self._rounds = [
            {control.text: control for normalized, control in controls if normalized is wanted}
            for wanted in (False, True)
        ]
        self._patterns = [
            re.compile("|".join(re.escape(text) for text in sorted(found, key=len, reverse=True))) if found else None
            for found in self._rounds
        ]
        # Any unknown word becomes the unknown token, which controls nothing.
        self._forbidden = frozenset(control.id for _, control in controls if control.text != unknown)
        self._foreign, self._own = Cover.of(special | loose), Cover.of(special)
        self._plain, self._anchor = build_plain(core, frozenset(control.text for _, control in controls))

    def cover_messages(self, conversation: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
        """Return the messages, of ``role`` and ``content``, without any control token in their contents."""
        return [
            {
                **message,
                "content": (self._own if message["role"] in OWN_WORDS else self._foreign).apply_to_content(
                    message["content"]
                ),
            }
            for message in conversation
        ]

    def cover_tools(self, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return tools, in OpenAI's function format, without any control token in their texts."""
        return [self._foreign.apply_to_values(tool) for tool in tools]

    def render(
        self, conversation: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]], generation_prompt: bool
    ) -> str:
        """Return covered messages and tools by the chat template, as a text that ``encode`` reads.

        Raises ``InvalidField("messages")`` when the template refuses them.
        """
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(conversation),
                tools=list(tools) or None,
                add_generation_prompt=generation_prompt,
                tokenize=False,
            )
        except FathomError:
            raise
        except Exception as error:  # jinja's, or what the template raises
            raise InvalidField("messages", f"the chat template refuses them: {error}") from error
        return text

    def encode(self, text: str) -> list[int]:
        """Return the ids of rendered text; none is added, for the template has written all special tokens."""
        ids: list[int] = []
        end = 0
        for start, stop, control in self._find_controls(text, 0, len(text), 0):
            ids += [*self._encode_between(text, end, start), control.id]
            end = stop
        return [*ids, *self._encode_between(text, end, len(text))]

    def encode_content(self, text: str) -> list[int]:
        """Return the ids of a document or another text that stands outside any template."""
        return self._encode_plain(text, is_first=True)

    def encode_chat(self, conversation: Sequence[Mapping[str, str]]) -> list[int]:
        """Return the ids of a conversation with the generation prompt; without a template, of its contents by line."""
        if not self._tokenizer.chat_template:
            return self.encode_content("\n".join(message["content"] for message in conversation))
        return self.encode(self.render(self.cover_messages(conversation), (), True))

    def _find_controls(self, text: str, begin: int, end: int, number: int) -> Iterator[tuple[int, int, Control]]:
        """Yield the template's own control tokens between two places, with where each begins and ends."""
        if number == len(self._rounds):
            return
        pattern, done = self._patterns[number], begin
        for match in pattern.finditer(text, begin, end) if pattern else ():
            control = self._rounds[number][match.group()]
            start, stop = match.span()
            if start < done or not control.fits(text, start, stop):
                continue
            while control.lstrip and start > done and text[start - 1].isspace():
                start -= 1
            while control.rstrip and stop < end and text[stop].isspace():
                stop += 1
            yield from self._find_controls(text, done, start, number + 1)
            yield start, stop, control
            done = stop
        yield from self._find_controls(text, done, end, number + 1)

    def _encode_between(self, text: str, start: int, end: int) -> list[int]:
        return self._encode_plain(uncover(text[start:end]), is_first=start == 0)

    def _encode_plain(self, text: str, *, is_first: bool) -> list[int]:
        """Return ids none of which is a control token's."""
        if not text:
            return []
        # Some tokenizers treat the beginning of a text in their own way: what does not stand there gets something
        # before it, whose id is taken away again.
        head = "" if is_first else self._anchor
        found = self._plain.encode(head + text, add_special_tokens=False)
        ids, offsets, skipped = list(found.ids), found.offsets, 0 if is_first else 1
        cuts = {
            min(max((start + end) // 2 - len(head), 1), len(text) - 1)
            for number, (start, end) in zip(ids[skipped:], offsets[skipped:], strict=True)
            if number in self._forbidden
        }
        if not cuts:
            return ids[skipped:]
        if len(text) == 1:
            # Nothing but the control token spells this character: it is left out.
            return [number for number in ids[skipped:] if number not in self._forbidden]
        # The vocabulary itself spells a control token, as those of unigram models do: it is encoded in two halves.
        places = [0, *sorted(cuts), len(text)]
        halves = [text[start:end] for start, end in itertools.pairwise(places)]
        return [
            number
            for place, half in enumerate(halves)
            for number in self._encode_plain(half, is_first=is_first and place == 0)
        ]


def is_mark(token: Any) -> bool:
    """Return whether an added token controls something: a special one, or one that is neither blank nor a word."""
    text = token.content
    # Words and runs of blanks that somebody has added to the vocabulary are vocabulary.
    is_word = "".join(text.split()).isalnum()
    return bool(text.strip()) and (bool(token.special) or not is_word)


def build_plain(core: Any, marks: frozenset[str]) -> tuple[Any, str]:
    """Return a copy of a tokenizer that finds none of these added tokens, and an anchor: a token that no content has.

    Raises ``InvalidField("tokenizer")`` when the copy numbers its tokens in another way.
    """
    from tokenizers import AddedToken, Tokenizer

    found = json.loads(core.to_str())
    words = core.get_vocab(with_added_tokens=False)
    kept = []
    for token in found["added_tokens"]:
        if token["content"] not in marks:
            kept.append(token)
        elif token["content"] not in words:
            # Its number stays taken, under a name that cannot be guessed, so that no later token moves.
            kept.append({**token, "content": secrets.token_hex(16), "normalized": False})
    # The post-processor refers to special tokens by name; here nothing is added, cut off or filled up.
    found |= {"added_tokens": kept, "post_processor": None, "truncation": None, "padding": None}
    plain = Tokenizer.from_str(json.dumps(found))
    anchor = f"<{secrets.token_hex(16)}>"
    plain.add_special_tokens([AddedToken(anchor, special=True, normalized=False)])
    if any(plain.token_to_id(token["content"]) != token["id"] for token in kept):
        raise InvalidField("tokenizer", "numbers its added tokens otherwise than its file says")
    return plain, anchor
