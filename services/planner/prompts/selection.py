"""Selection of the prompts of a run or rollout, made once and recorded with the trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fathom.core.errors import InvalidField, NotFound
from fathom.core.ids import sha256
from fathom.domain.chat.guidance import ABOUT_DATA, ABOUT_PRODUCT, CORPORA, GIVEN_TABLES, OWN_DOCUMENTS, with_guidance
from fathom.domain.chat.pipeline import COMPOSE, PLAN, REFLECT, REWRITE
from fathom.domain.chat.quoting import quote
from fathom.domain.profile.guidance import format_memory
from fathom.domain.text.language import language_of
from fathom.services.planner.config import Config
from fathom.services.planner.model.episode import Material, Subject, Task
from fathom.services.planner.prompts.catalogue import Catalogue, Prompt

RESEARCH_STAGES = ("research", "answer", "restate")
WORKFLOW_STAGES = (REWRITE, PLAN, REFLECT, COMPOSE, "answer")
# Variant of the stages for models whose window has no room for the usual prompts and tools.
SHORT = "short"
# Below this window, in tokens, the usual prompts, tools and data summary would take more than half of it.
SMALL_WINDOW = 8_192
# Tools that the short prompt names; the specifications of all others would take another quarter of such a window.
SHORT_TOOLS = ("catalogue", "data", "fetch", "python", "search")
# A dozen tables must leave the window to the question.
GIVEN_CHARS = 400
STAGES = tuple(dict.fromkeys((*RESEARCH_STAGES, *WORKFLOW_STAGES)))


@dataclass(frozen=True)
class Prompts:
    """Prompts of a planner, according to its settings."""

    catalogue: Catalogue
    form: str = "conclusion"
    """Variant of the answer stage for runs that name none."""
    versions: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    restate: bool = True

    @classmethod
    def of(cls, catalogue: Catalogue, config: Config) -> Prompts:
        """Create them from the settings; raise ``InvalidField`` for a setting that names an unknown prompt."""
        find_prompt(catalogue, "answer", "en", config.answer_form, 0, "answer_form")
        made = cls(catalogue, config.answer_form, config.prompt_versions, config.prompt_seed, config.restate_question)
        for stage, version in config.prompt_versions.items():
            if stage not in STAGES:
                raise InvalidField(f"prompt_versions.{stage}", f"is not one of {', '.join(STAGES)}")
            find_prompt(catalogue, stage, "en", made.name_usual(stage), version, f"prompt_versions.{stage}")
        return made

    def choose(
        self,
        question: str,
        wanted: Mapping[str, str] | None = None,
        stages: Sequence[str] = RESEARCH_STAGES,
        window_tokens: int = 0,
    ) -> dict[str, str]:
        """Return prompt ids by stage; ``wanted`` holds ids, versions ("v1") or variants, such as "report".

        A small window gets the short variants, where no other is wanted; ``window_tokens`` 0 is not small. Raises
        ``InvalidField("prompts.<stage>")`` for an unknown one.
        """
        wanted, language = wanted or {}, language_of(question)
        for stage in wanted:
            if stage not in stages:
                raise InvalidField(f"prompts.{stage}", f"is not one of {', '.join(stages)}")
        is_small = is_small_window(window_tokens)
        short = {"answer": SHORT, "research": SHORT} if is_small else {}
        return {
            stage: self._choose_one(stage, language, short.get(stage, self.name_usual(stage)), wanted.get(stage, "")).id
            for stage in stages
            if stage != "restate" or (self.restate and not is_small)
        }

    def _choose_one(self, stage: str, language: str, name: str, wanted: str) -> Prompt:
        # The unnamed variant is "", which is also what an unset wish is.
        if wanted and wanted in self.catalogue.names(stage):
            name = wanted
        elif wanted.startswith("v") and wanted[1:].isdigit():
            # A version is one of the usual variant, also where the window would have got another.
            usual = self.name_usual(stage)
            return find_prompt(self.catalogue, stage, language, usual, int(wanted[1:]), f"prompts.{stage}")
        elif wanted:
            prompt = get_prompt(self.catalogue, wanted, f"prompts.{stage}")
            if prompt.header.stage != stage:
                raise InvalidField(f"prompts.{stage}", f"{wanted!r} is a prompt of {prompt.header.stage}")
            return prompt
        return self.find_usual(stage, language, name)

    def name_usual(self, stage: str) -> str:
        """Return the variant of a stage for runs that name none, in a window that is not small."""
        return self.form if stage == "answer" else ""

    def find_usual(self, stage: str, language: str, name: str) -> Prompt:
        """Return the version of a variant for runs that name none; raise ``InvalidField("prompts.<stage>")``."""
        # The version that the settings name is one of the usual variant; of the others it is the newest.
        version = self.versions.get(stage, 0) if name == self.name_usual(stage) else 0
        return find_prompt(self.catalogue, stage, language, name, version, f"prompts.{stage}")

    def system(self, task: Task) -> str:
        """Return the system prompt of a task, identical bytes for all runs with the same prompt."""
        text = self.catalogue.get(self._ids(task)["research"]).render(self.seed)
        # Behind the prompt: all runs over the same data still have the same bytes.
        return f"{text}\n\n{task.data_summary}" if task.data_summary else text

    def opening(self, task: Task) -> str:
        """Return the user message: the question first, then what is specific to this run."""
        ids = self._ids(task)
        # In the user message and not in the system prompt, which must be the same bytes for all runs.
        lines = [f"Date: {task.date}"] if task.date else []
        lines += describe_tables(task)
        lines += [OWN_DOCUMENTS[language_of(task.question) == "zh"]] if task.corpora else []
        lines += describe_subject(task)
        lines += describe_chart(task)
        lines += describe_instructions(task)
        lines += describe_memory(task)
        lines += [self.catalogue.get(ids[stage]).render(self.seed) for stage in ("answer", "restate") if stage in ids]
        return with_guidance(task.question, lines)

    def text(self, task: Task, stage: str) -> str:
        """Return the prompt of one workflow stage."""
        return self.catalogue.get(self._ids(task, WORKFLOW_STAGES)[stage]).render(self.seed)

    def render_rewriting(self, language: str) -> str:
        """Return the prompt by which a follow-up is made whole before a run, in the version that the settings name."""
        return self.catalogue.find(REWRITE, language, version=self.versions.get(REWRITE, 0)).render(self.seed)

    def hash(self, task: Task, stages: Sequence[str] = RESEARCH_STAGES) -> str:
        """Return a hash of all prompt texts of a task."""
        ids = self._ids(task, stages)
        texts = [self.catalogue.get(ids[stage]).render(self.seed) for stage in sorted(ids)]
        return sha256("\n".join([*texts, *([task.data_summary] if task.data_summary else [])]).encode())

    def _ids(self, task: Task, stages: Sequence[str] = RESEARCH_STAGES) -> Mapping[str, str]:
        # A record names the summary of the data too, which is no prompt of the catalogue.
        recorded = {stage: ident for stage, ident in task.prompts.items() if stage in STAGES}
        return recorded or self.choose(task.question, stages=stages)


def is_small_window(tokens: int) -> bool:
    """Return whether a window in tokens is known and has no room for the usual prompts and tools."""
    return 0 < tokens < SMALL_WINDOW


def describe_tables(task: Task) -> list[str]:
    """Return the tables supplied with a task, described as fetched ones are, and a list of those of earlier turns."""
    chinese = language_of(task.question) == "zh"
    there = "已在 Python 中" if chinese else "is in Python already"
    named = [(f"sheet_{number}", sheet) for number, sheet in enumerate(task.sheets, 1)]
    described = [f"{name} {there}:\n{quote(sheet.digest.replace(sheet.id, name))}" for name, sheet in named]
    if not task.given:
        return described
    return [*described, f"{GIVEN_TABLES[chinese]}\n{quote(chr(10).join(map(describe_given, task.given)))}"]


def describe_given(item: Material) -> str:
    """Return number, variable, title, size and columns of a table on one line of at most ``GIVEN_CHARS`` characters."""
    sheet = item.item
    columns = ", ".join(f"{column.name} ({column.unit})" if column.unit else column.name for column in sheet.columns)
    line = f"[{item.number}] {item.variable}: {sheet.title}, {sheet.rows:,} rows; columns {columns}"
    return line if len(line) <= GIVEN_CHARS else f"{line[: GIVEN_CHARS - 1]}…"


def describe_subject(task: Task) -> list[str]:
    """Return the lines for a question about the data as such, or about the program."""
    chinese = language_of(task.question) == "zh"
    if task.subject == Subject.DATA:
        return [ABOUT_DATA[chinese], *([CORPORA[chinese] + ", ".join(task.corpora)] if task.corpora else [])]
    # What users have brought for a question may well answer it.
    is_alone = not (task.corpora or task.given or task.sheets)
    return [ABOUT_PRODUCT[chinese]] if task.subject == Subject.PRODUCT and is_alone else []


def describe_chart(task: Task) -> list[str]:
    """Return the line that names the chart which the question asks for."""
    if not task.chart:
        return []
    chinese = language_of(task.question) == "zh"
    return [f"问题要求图表：{task.chart}。" if chinese else f"The question asks for a chart: {task.chart}."]


def describe_instructions(task: Task) -> list[str]:
    """Return what the calling application asks of the answer."""
    if not task.instructions:
        return []
    chinese = language_of(task.question) == "zh"
    head = "提问的应用对回答的要求：" if chinese else "The application that asks wants of the answer:"
    return [f"{head}\n{quote(task.instructions)}"]


def describe_memory(task: Task) -> list[str]:
    """Return what is remembered of the user, as quoted data."""
    text = format_memory(task.memory.lines, language_of(task.question) == "zh")
    return [text] if text else []


def find_prompt(catalogue: Catalogue, stage: str, language: str, name: str, version: int, where: str) -> Prompt:
    """Find a prompt; raise ``InvalidField(where)`` when it does not exist."""
    try:
        return catalogue.find(stage, language, name, version)
    except NotFound as error:
        raise InvalidField(where, error.message) from error


def get_prompt(catalogue: Catalogue, wanted: str, where: str) -> Prompt:
    """Return the prompt of an id; raise ``InvalidField(where)`` when it does not exist."""
    try:
        return catalogue.get(wanted)
    except NotFound as error:
        raise InvalidField(where, error.message) from error
