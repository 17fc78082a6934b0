"""Words that a report has of its own, in both languages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fathom.api.planner.v1 import trajectory_pb2 as trajectory

LANGUAGES = ("en", "zh")
WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "en": {
            "references": "References",
            "notes": "Marks of the check",
            "missing": "Not found",
            "made": "Exported",
            "model": "Model",
            "run": "Run",
            "page": "page {}",
            "as_of": "data as of {}",
            "rows": "{} of {} rows",
            "calculation": "Calculation",
            "code": "Code",
            "table_away": "Table “{}”: its rows can no longer be read",
            "figure_away": "Figure “{}”: it cannot be drawn in this format",
            "table_withheld": "Table “{}” is of files that are not shared",
            "figure_withheld": "Figure “{}” is of files that are not shared",
            "text_withheld": "(Not shared: what stood here cites files that are not shared.)",
            "answer": "Answer",
            "sources": "Sources: {}",
            "columns": "Columns",
            "column_heads": "table|column|unit|source|vendor|data as of|basis|formula|rows",
            "notebook_about": "The cells below ran in this order, with these outputs.",
            "script_about": "The cells below ran in this order; the last line of each was shown.",
            "script_failed": "This cell failed when it ran.",
            "notebook_needs": "These cells need Python with Fathom and its extra: pip install 'fathom[sandbox]'.",
            "notebook_token": "Tables are read from the gateway; set FATHOM_TOKEN where it asks who you are.",
            "link_gone": "This link does not exist, or has ended.",
            "link_away": "The page cannot be shown just now; please try again in a few minutes.",
            "compliance": "For information only, not investment advice. Data end at the date each source states.",
        },
        "zh": {
            "references": "参考来源",
            "notes": "核对标记",
            "missing": "未找到",
            "made": "导出时间",
            "model": "模型",
            "run": "运行",
            "page": "第 {} 页",
            "as_of": "数据截至 {}",
            "rows": "共 {1} 行，显示 {0} 行",
            "calculation": "计算",
            "code": "代码",
            "table_away": "表格“{}”：数据已无法读取",
            "figure_away": "图表“{}”：此格式无法绘制",
            "table_withheld": "表格“{}”来自未分享的文件",
            "figure_withheld": "图表“{}”来自未分享的文件",
            "text_withheld": "（未分享：此处内容引用了未分享的文件。）",
            "answer": "回答",
            "sources": "来源：{} 个",
            "columns": "列说明",
            "column_heads": "表格|列|单位|来源|供应商|数据截至|口径|公式|行数",
            "notebook_about": "以下单元格按此顺序运行，并得到所示输出。",
            "script_about": "以下单元格按此顺序运行，各单元格最后一行的值当时已显示。",
            "script_failed": "此单元格运行时失败。",
            "notebook_needs": "运行这些单元格需要安装 Fathom 及其 sandbox 附加组件：pip install 'fathom[sandbox]'。",
            "notebook_token": "表格从网关读取；如需身份验证，请设置 FATHOM_TOKEN。",
            "link_gone": "此链接不存在或已失效。",
            "link_away": "页面暂时无法显示，请过几分钟再试。",
            "compliance": "仅供参考，不构成投资建议。数据截止日期以各来源所示为准。",
        },
    }
)

KINDS: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        trajectory.FINDING_KIND_NUMBER: ("Number without support", "数字缺乏依据"),
        trajectory.FINDING_KIND_TIME: ("Wrong or unknown date", "日期有误或无依据"),
        trajectory.FINDING_KIND_EVENT: ("Material says otherwise", "与材料不符"),
        trajectory.FINDING_KIND_UNSUPPORTED: ("No material holds this", "没有材料支持"),
        trajectory.FINDING_KIND_UNCITED: ("No source given", "未注明来源"),
        trajectory.FINDING_KIND_UNRESOLVED: ("Removed citation", "已移除的引用"),
        trajectory.FINDING_KIND_TYPED_TABLE: ("Typed table", "手写表格"),
        trajectory.FINDING_KIND_REPEATED: ("Said before", "前文已述"),
        trajectory.FINDING_KIND_FIGURE: ("Figure failed", "图表失败"),
        trajectory.FINDING_KIND_SECTION: ("Section missing", "缺少章节"),
        trajectory.FINDING_KIND_UNCHECKED: ("Not checked", "未核对"),
        trajectory.FINDING_KIND_LENGTH: ("Too short or too long", "篇幅过短或过长"),
        trajectory.FINDING_KIND_TRUNCATED: ("Cut off", "未完"),
    }
)


def say(language: str, key: str, *values: object) -> str:
    """Return a word in a language, with values in its places."""
    return WORDS[language][key].format(*values)


def name_kind(language: str, kind: int) -> str:
    """Return what a mark of the check says; the number of a kind that is not known here."""
    known = KINDS.get(kind)
    return str(kind) if known is None else known[LANGUAGES.index(language)]
