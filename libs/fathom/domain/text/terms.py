"""Content words in English and Chinese, to compare a question with titles and sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from fathom.domain.text.language import language_of
from fathom.domain.text.scripts import HAN, HAN_CHARACTER

# Letters of all scripts: "Grøtfjord" is one word, and "Grötfjord" another.
TOKEN = re.compile(rf"[{HAN}]+|[^\W_{HAN}]+(?:[.&'-][^\W_{HAN}]+)*")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“(])|(?<=[。！？])|\n+")
YEAR = re.compile(r"(?:19|20)\d\d")
# A row of a table as the readers of files and Markdown write it: cells between bars.
ROW = re.compile(r"\|?[^|\n]*[^|\s][^|\n]*(?:\|[^|\n]*)+")
NUMBER = re.compile(r"\d")
# Two numbers with no others between them, of which a unit may stand behind the first; and a number with its unit.
AMOUNT = r"\d+(?:,\d{3})*(?:\.\d+)?"
RANGE = re.compile(rf"({AMOUNT})\s?[^\W\d_]{{0,8}}\s?(?:[-–—~～至到]|\b(?:to|and)\b)\s?({AMOUNT})")
QUANTITY = re.compile(rf"({AMOUNT})\s?([{HAN}]|[^\W\d_{HAN}]+|%)")
RULE = re.compile(r"[\s|:-]+")
ENGLISH_STOPS = frozenset(
    """a about an and any are as at be been between by can could did do does explain find for from give had has have how
    i in into is it its latest let like many mean me more most much my news no not of on or our over please recent say
    shall should since so some tell than that the their them then there these they this those to up us was we were what
    what's when where which while who whom whose why will with would you your""".split()  # noqa: SIM905
)
# Cut out of Chinese text before it is compared in pairs of characters; longest first.
CHINESE_STOPS = re.compile(
    "请问|什么是|是什么|什么|是多少|多少|怎么样|怎么|怎样|如何|为什么|为何|哪些|哪个|关于|以及|之间|请|从|到|至|在|的|了|和|与|及|是|吗|呢|年|月|日|我|你"
)


@dataclass(frozen=True)
class Part:
    """A sentence, or a row of a table with the row that names its columns, or two on two lines; "" where none does."""

    head: str
    text: str
    is_row: bool = False

    @property
    def whole(self) -> str:
        """Return the text with the names of its columns."""
        return f"{self.head} {self.text}"


def is_chinese(text: str) -> bool:
    """Return whether the answer to a text is to be Chinese."""
    return language_of(text) == "zh"


def list_words(text: str) -> list[str]:
    """Return the terms of a text in order, Latin words without plural endings, Chinese text as pairs of characters."""
    found: list[str] = []
    for match in TOKEN.finditer(unicodedata.normalize("NFKC", text).lower()):
        word = match.group()
        if HAN_CHARACTER.match(word):
            for run in CHINESE_STOPS.sub(" ", word).split():
                found += [run[index : index + 2] for index in range(len(run) - 1)] or [run]
        elif word not in ENGLISH_STOPS:
            word = word.removesuffix("'s")
            found.append(word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "sui" else word)
    return found


def list_sentences(text: str) -> list[str]:
    """Return the sentences of prose, without headings, list items and table rows."""
    parts = (part.strip() for part in SENTENCE.split(text))
    return [part for part in parts if len(part) >= 8 and not part.startswith(("#", "|", "-", "*", "```"))]


def list_rows(text: str) -> list[tuple[str, str]]:
    """Return the rows of the tables of a text, each with the row that names its columns, "" where none does.

    A header of two rows, whose cells were merged, gives two lines.
    """
    found: list[tuple[str, str]] = []
    table: list[str] = []
    for line in (*map(str.strip, text.splitlines()), ""):
        if "|" in line and RULE.fullmatch(line):
            # Markdown parts the names of columns from the rows.
            continue
        if ROW.fullmatch(line):
            table.append(line)
        else:
            found += name_rows(table)
            table = []
    return found


def name_rows(table: Sequence[str]) -> list[tuple[str, str]]:
    """Return the rows of one table, each with the rows above it that name its columns."""
    rows = [line.strip("| ") for line in table]
    # A table of names and values has no names above it: there the first row says something, too.
    if not rows or has_figures(rows[0]):
        return [("", row) for row in rows]
    is_split = len(rows) > 2 and not has_figures(rows[1]) and has_figures(rows[2]) and has_merged(table[0])
    count = 2 if is_split else 1
    head = "\n".join(rows[:count])
    return [*(("", row) for row in rows[:count]), *((head, row) for row in rows[count:])]


def has_figures(row: str) -> bool:
    """Return whether a row has numbers other than years."""
    return bool(NUMBER.search(YEAR.sub("", row)))


def has_merged(line: str) -> bool:
    """Return whether a row has an empty cell or one twice, as those of a merged one are written."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return len(set(cells)) < len(cells) or "" in cells[1:]


def is_about(passage: str, text: str, question: str) -> bool:
    """Return whether a text has all years of a question, and a passage of it at least a third of its terms."""
    wanted = set(list_words(question))
    years = {word for word in wanted if YEAR.fullmatch(word)}
    shared = wanted & set(list_words(passage))
    return years <= set(list_words(text)) and 3 * len(shared) >= len(wanted) and len(shared) >= min(2, len(wanted)) > 0


def is_small_talk(question: str) -> bool:
    """Return whether a question asks for nothing: at most one term and no question mark, as in a greeting."""
    return len(list_words(question)) <= 1 and not re.search(r"[?？]\s*$", question)


def find_within(question: str, part: Part) -> list[str]:
    """Return the quantities of a question that lie in a range of a part: "120 days" in a row of "91 to 180 days".

    Their unit is that of the range, or stands in the names of the columns.
    """
    ranges = [(read_number(low), read_number(high)) for low, high in RANGE.findall(part.text)]
    found = []
    for number, unit in QUANTITY.findall(question) if ranges else ():
        is_within = any(low <= read_number(number) <= high for low, high in ranges)
        found += [f"{number} {unit}"] if is_within and unit.casefold() in part.whole.casefold() else []
    return found


def read_number(text: str) -> float:
    """Return the value of digits with separators of thousands."""
    return float(text.replace(",", ""))


def list_parts(text: str) -> list[Part]:
    """Return the sentences of prose, then the rows of tables with the names of their columns."""
    prose = [Part("", part) for part in list_sentences(text) if not ROW.fullmatch(part)]
    return [*prose, *(Part(head, row, is_row=True) for head, row in list_rows(text))]


def quote_part(text: str, parts: Sequence[Part], place: int, limit: int = 900) -> str:
    """Return a part of a text with the sentences that follow it directly, or a row behind the names of its columns."""
    quoted = parts[place].text
    if parts[place].is_row:
        return re.sub(r"\s+", " ", "” … “".join([*parts[place].head.splitlines(), quoted]))
    for following in parts[place + 1 :]:
        # What follows often limits what is said; only words that stand together in the text are joined.
        joined = f"{quoted}{'' if is_chinese(quoted) else ' '}{following.text}"
        if joined not in text or len(joined) > limit:
            break
        quoted = joined
    return re.sub(r"\s+", " ", quoted)
