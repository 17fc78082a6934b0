"""What a follow-up may be told of its conversation (row W07): all of it, points of it, or two turns and points.

The gold follow-ups stand at the end of conversations of eight turns; the answer that they lean on is as long as real
ones are, its telling sentence behind others with numbers. The rewriter is the reference
policy. A case is right when the rewritten question holds whom, what and when. The baseline is the whole conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from fathom.protocol.messages import Message, Role
from fathom.protocol.pipeline import REWRITE, Asked, ask
from services.memory.points import points
from services.planner.workflow.asking import FULL_TURNS, history
from services.policy.backends.rules.stages.rewriting import rewritten
from services.policy.backends.rules.tokenizer import RulesTokenizer, load_vocabulary

GOLD = Path(__file__).parents[1] / "golden" / "workflow" / "rewriting.yaml"
TURNS = 8
BEFORE = (
    "The sample has 252 trading days. The median volume was 3.1 million shares. Of all days 54% ended higher."
    " The largest gain on one day was 4.9%."
)
BEFORE_ZH = "样本共252个交易日。成交量中位数为310万股。上涨的交易日占54%。单日最大涨幅为4.9%。"
PROSE = (
    " The move had several causes. Demand came back sooner than supply, and those who had sold early bought again."
    " Rates helped for as long as they fell, and hurt when they did not. What remained was explained by neither, and"
    " the documents differ about it: some name the dollar, others the stocks that had been built up before. None of"
    " them gives a figure for its share, so none is given here. The course since then does not decide between them."
)
PROSE_ZH = (
    "这一走势有几方面原因。需求恢复快于供给，早先卖出的投资者重新买入。利率下行时构成支撑，转而上行时构成压力。"
    "其余部分两者都不能解释，各份资料说法不一：有的归因于美元，有的归因于此前积累的库存。没有一份资料给出各因素的占比，"
    "因此这里也不给出。此后的走势同样无法判断哪种说法更有道理。"
)
OTHERS = (
    ("How did gold do in 2011?", "Gold rose by 10.1% in 2011 [1]. It was highest in September, at 1,895 USD [1]."),
    ("2010年原油价格走势", "2010年原油从79.4美元升至91.4美元[1]。"),
)


def conversation(case: dict[str, Any]) -> list[Message]:
    """Eight turns, those of the case last; their answers are made longer."""
    chinese = not str(case["question"]).isascii()
    before, prose = (BEFORE_ZH, PROSE_ZH) if chinese else (f"{BEFORE} ", PROSE)
    own = [(asked, before + answered + prose) for asked, answered in case["turns"]]
    asked, answered = OTHERS[chinese]
    filler = [(asked, answered + prose)] * (TURNS - len(own))
    return [
        Message(role, text)
        for turn in (*filler, *own)
        for role, text in zip((Role.USER, Role.ASSISTANT), turn, strict=True)
    ]


def in_points(messages: Sequence[Message], full: int) -> list[Message]:
    """The messages as memory gives them: answers before the last ``full`` as their points."""
    first = len(messages) - 2 * full
    return [
        Message(message.role, "\n".join(f"- {point}" for point in points(message.content)))
        if message.role is Role.ASSISTANT and place < first
        else message
        for place, message in enumerate(messages)
    ]


POLICIES: dict[str, Callable[[Sequence[Message]], str]] = {
    "all": lambda messages: history(messages, TURNS),
    "points only": lambda messages: history(in_points(messages, 0), 0),
    "two turns and points": lambda messages: history(in_points(messages, FULL_TURNS)),
}


async def run() -> None:
    """Prints per policy the share of right rewritings by family, and the prompt's tokens."""
    cases = yaml.safe_load(GOLD.read_text(encoding="utf-8"))
    tokenizer = RulesTokenizer(load_vocabulary())
    families = ("pronoun", "time", "detail")
    print(f"{'history':<24}{'right':>8}{'ratio':>7}" + "".join(f"{name:>10}" for name in families) + f"{'tokens':>9}")
    base = 0.0
    for name, told in POLICIES.items():
        right: dict[str, list[bool]] = {family: [] for family in families}
        tokens = 0
        for case in cases:
            sections = {"history": told(conversation(case)), "question": str(case["question"])}
            tokens += len(tokenizer.encode(ask(REWRITE, sections)))
            found = rewritten(Asked(REWRITE, sections)).lower()
            right[case["family"]].append(all(part.lower() in found for part in case["expect"]))
        whole = [one for part in right.values() for one in part]
        share = sum(whole) / len(whole)
        base = base or share
        shares = "".join(f"{sum(part) / len(part):>10.1%}" for part in right.values())
        print(f"{name:<24}{share:>8.1%}{share / base:>7.2f}{shares}{tokens / len(cases):>9,.0f}")
