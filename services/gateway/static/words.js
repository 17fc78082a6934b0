// The page's words in both languages, and which one is spoken.

export const WORDS = {
  en: {
    ask: "Ask", placeholder: "Ask about companies, prices, rates, the economy…", fresh: "New question",
    filterRows: "Filter rows", frameworks: "Analysis frameworks", trainings: "Trainings", indicators: "indicators", filter: "Filter conversations", conversations: "Conversations", language: "Switch to Chinese", theme: "Light or dark",
    panel: "Details", close: "Close", model: "Model", hint: "Enter sends · Shift+Enter new line · Esc stops",
    welcome: "What would you like to know?",
    promise: "Numbers are checked against the table, document or calculation they cite; what is not found there is marked.",
    compliance: "For information only, not investment advice. Data end at the date each source states.",
    sources: "Sources", data: "Data", code: "Code", trace: "Trace", waiting: "Waiting for the planner…",
    queued: "In the queue, runs before this one:", away: "Waiting for",
    window: "When a conversation grows too long", windowDefault: "memory: standard", windowOff: "memory: keep all",
    windowDelete: "memory: delete", windowSummarize: "memory: summarise", windowHybrid: "memory: both",
    thinking: "Thinking…", writing: "Writing the answer…", drafting: "Drafting the answer, not checked yet…",
    replaced_correction: "A check found faults in the draft; it is being corrected", replaced_refused: "The draft came too early; the research continues", reconnecting: "Connection lost, reconnecting…", stop: "Stop",
    steps: "steps", one_step: "step", sheets: "sheets", one_sheet: "sheet", rows: "rows", columns: "columns",
    one_source: "source", n_sources: "sources", missing: "No data", nearest: "nearest",
    previous: "Previous page", next: "Next page", nothing: "Nothing here yet.", of: "of",
    rules: "rules: reference policy, not a language model", warming: "warming", idle: "loads when asked", paused: "paused", defaultModel: "default",
    finished: "Done", stopped: "Stopped", budget: "Budget spent", failed: "Failed", unfinished: "Not finished", running: "Running",
    noAnswer: "The run ended without an answer", gone: "does not exist", asOf: "data as of", source: "source", computedBy: "computed by",
    drawing: "Drawing…", noDrawing: "The figure cannot be drawn", noPoints: "there are no values to draw", logScale: "Log scale", showCode: "Code", copy: "Copy", copied: "Copied",
    helpful: "Helpful", unhelpful: "Not helpful", thanks: "Thank you", remove: "Delete",
    confirmRemove: "Delete this conversation?", today: "Today", yesterday: "Yesterday", earlier: "Earlier",
    cited: "cited", uncited: "not cited", used: "in Python as", reasoning: "thought", input: "Input", result: "Result", output: "Output",
    traceback: "Traceback", record: "Full record (JSON)", tokens: "tokens", ok: "ok", empty: "empty", invalid: "invalid",
    tooLong: "characters over the limit", sort: "Sort by", more: "Show more", expand: "Steps", passage: "Document",
    sheet: "Table", unknown: "Not loaded yet", resume: "Go on", resumed: "Taken up again", todo: "Plan",
    todoAdd: "Add a step", todoDrop: "Remove", compacted: "Earlier rounds were condensed", context: "Context in use",
    cachedTokens: "cached", reasoningTokens: "thought", estimated: "estimated", cost: "cost",
    subRun: "Open the sub-question's run",
    mode: "Mode", mode_research: "Agent", mode_workflow: "Workflow", mode_auto: "Automatic",
    mode_research_note: "Asks step by step, each step from what the last one found",
    mode_workflow_note: "Plans once, collects, looks once for gaps, answers",
    mode_auto_note: "Chosen by the question",
    bringTable: "Attach a table that has it (＋▦) and ask again.",
    attach: "Attach tables (CSV, TSV, XLSX, Parquet)", uploads: "Attached tables", attached: "attached", unreadRows: "rows not read",
    effort: "Effort", effort_quick: "Quick", effort_standard: "Standard", effort_deep: "Deep",
    effort_quick_note: "A few rounds, about a minute", effort_standard_note: "What most questions need",
    effort_deep_note: "Many rounds, up to a quarter of an hour", capped: "Limit of the server", as_report: "The answer is a report in fixed sections",
    stage_rewrite: "Question understood as", stage_plan: "Plan", stage_reflect: "Check for gaps",
    stage_compose: "Answer written", sub_question: "sub-question", sub_questions: "sub-questions", mended: "mended",
    usedFromMemory: "Used from memory", correctMemory: "click to correct it", memory: "Memory",
    memoryNote: "What Fathom remembers of you. It changes how answers are given, and is never a source of a number.",
    noFacts: "Nothing is remembered.", addFact: "Remember", saveFact: "Save", editFact: "Edit", factKind: "Kind", factText: "In one sentence", factValue: "Value",
    learntFact: "learnt from a question", statedFact: "stated by you", memoryChanged: "Memory changed",
    factChanged: "This was changed elsewhere meanwhile; here is what it says now.",
    fact_statement: "About you", fact_currency: "Currency", fact_units: "Units", fact_language: "Language of answers", fact_depth: "Effort", fact_colours: "Colours", fact_decimals: "Decimals", fact_watch_list: "Watch-list", fact_memory: "Memory",
    value_thousand: "thousands", value_million: "millions", value_billion: "billions", value_wan: "万", value_yi: "亿", value_en: "English", value_zh: "Chinese",
    value_quick: "quick", value_standard: "standard", value_deep: "deep", value_green_up: "green rises", value_red_up: "red rises", value_point: "1,234.5", value_comma: "1.234,5", value_on: "on", value_off: "off",
    readAs: "Read as", colon: ":", changeSlot: "click to change it and ask again", slotFor: "Other words for", choose: "Which question do you mean?", slot_filled: "covered", slot_open: "not covered",
    slot_unsure: "not verified",
    doubt_number: "Number without support", doubt_time: "Wrong or unknown date", doubt_event: "Material says otherwise",
    doubt_unsupported: "No material holds this", doubt_uncited: "No source given", doubt_unresolved: "Removed citation",
    doubt_typed_table: "Typed table", doubt_repeated: "Said before", doubt_figure: "Figure failed", doubt_section: "Section missing", doubt_unchecked: "Not checked", doubt_truncated: "Cut off",
  },
  zh: {
    ask: "提问", placeholder: "可以问公司、股价、利率、宏观经济……", fresh: "新问题",
    filterRows: "筛选行", frameworks: "分析框架", trainings: "训练", indicators: "指标", filter: "筛选对话", conversations: "对话", language: "切换为英文", theme: "浅色或深色",
    panel: "详情", close: "关闭", model: "模型", hint: "回车发送 · Shift+回车换行 · Esc 停止",
    welcome: "想了解什么？",
    promise: "数字都会与其引用的表格、文档或计算核对；找不到依据的会被标出。",
    compliance: "仅供参考，不构成投资建议。数据截止日期以各来源所示为准。",
    sources: "来源", data: "数据", code: "代码", trace: "过程", waiting: "等待规划器……",
    queued: "排队中，前面的任务数：", away: "正在等待",
    window: "上下文过长时", windowDefault: "记忆：默认", windowOff: "记忆：全部保留", windowDelete: "记忆：删除",
    windowSummarize: "记忆：摘要", windowHybrid: "记忆：混合", thinking: "思考中……", writing: "正在撰写答案……", drafting: "正在起草答案，尚未核对……",
    replaced_correction: "核对发现草稿有误，正在修改", replaced_refused: "草稿来得太早，继续查证", reconnecting: "连接中断，正在重连……", stop: "停止",
    steps: "步", one_step: "步", sheets: "张表", one_sheet: "张表", rows: "行", columns: "列",
    one_source: "个来源", n_sources: "个来源", missing: "无数据", nearest: "相近",
    previous: "上一页", next: "下一页", nothing: "暂无内容。", of: "/",
    rules: "rules：参考策略，不是语言模型", warming: "加载中", idle: "使用时加载", paused: "已暂停", defaultModel: "默认",
    finished: "完成", stopped: "已停止", budget: "额度用尽", failed: "失败", unfinished: "未完成", running: "运行中",
    noAnswer: "本次运行没有得到答案", gone: "不存在", asOf: "数据截至", source: "来源", computedBy: "计算自",
    drawing: "绘制中……", noDrawing: "图表无法绘制", noPoints: "没有可绘制的数值", logScale: "对数坐标", showCode: "代码", copy: "复制", copied: "已复制",
    helpful: "有帮助", unhelpful: "没帮助", thanks: "谢谢", remove: "删除",
    confirmRemove: "删除这段对话？", today: "今天", yesterday: "昨天", earlier: "更早",
    cited: "已引用", uncited: "未引用", used: "Python 变量", reasoning: "思考", input: "输入", result: "结果", output: "输出",
    traceback: "错误信息", record: "完整记录（JSON）", tokens: "词元", ok: "成功", empty: "无结果", invalid: "无效",
    tooLong: "个字符超出上限", sort: "排序：", more: "显示更多", expand: "步骤", passage: "文档",
    sheet: "表格", unknown: "尚未载入", resume: "继续", resumed: "已继续", todo: "计划",
    todoAdd: "添加步骤", todoDrop: "移除", compacted: "较早的轮次已压缩", context: "上下文占用",
    cachedTokens: "来自缓存", reasoningTokens: "用于思考", estimated: "估计", cost: "费用",
    subRun: "打开子问题的运行",
    mode: "模式", mode_research: "智能体", mode_workflow: "工作流", mode_auto: "自动",
    mode_research_note: "逐步提问，每一步依据上一步的发现",
    mode_workflow_note: "一次计划，收集，检查一次缺口，作答",
    mode_auto_note: "按问题选择",
    bringTable: "可附加含有该数据的表格（＋▦）后重新提问。",
    attach: "附加表格（CSV、TSV、XLSX、Parquet）", uploads: "已附加的表格", attached: "已附加", unreadRows: "未读取的行",
    effort: "投入", effort_quick: "快速", effort_standard: "标准", effort_deep: "深入",
    effort_quick_note: "几轮，约一分钟", effort_standard_note: "适合大多数问题",
    effort_deep_note: "多轮，最长一刻钟", capped: "服务器上限", as_report: "答案写成固定章节的报告",
    stage_rewrite: "问题理解为", stage_plan: "计划", stage_reflect: "检查缺口", stage_compose: "撰写答案",
    sub_question: "个子问题", sub_questions: "个子问题", mended: "已修正",
    usedFromMemory: "用到的记忆", correctMemory: "点击修改", memory: "记忆",
    memoryNote: "Fathom 记住的关于您的信息。它影响回答的方式，但不作为任何数字的依据。",
    noFacts: "没有记住任何内容。", addFact: "记住", saveFact: "保存", editFact: "修改", factKind: "类别", factText: "一句话", factValue: "取值",
    learntFact: "从提问中得知", statedFact: "由您填写", memoryChanged: "记忆已更改",
    factChanged: "此条目已在别处修改，现显示最新内容。",
    fact_statement: "关于您", fact_currency: "货币", fact_units: "单位", fact_language: "回答语言", fact_depth: "投入", fact_colours: "涨跌颜色", fact_decimals: "小数点", fact_watch_list: "自选", fact_memory: "记忆",
    value_thousand: "千", value_million: "百万", value_billion: "十亿", value_wan: "万", value_yi: "亿", value_en: "英文", value_zh: "中文",
    value_quick: "快速", value_standard: "标准", value_deep: "深入", value_green_up: "绿涨", value_red_up: "红涨", value_point: "1,234.5", value_comma: "1.234,5", value_on: "开", value_off: "关",
    readAs: "理解为", colon: "：", changeSlot: "点击修改并重新提问", slotFor: "改写", choose: "您指的是哪个问题？", slot_filled: "已涵盖", slot_open: "未涵盖", slot_unsure: "未能核实",
    doubt_number: "数字缺乏依据", doubt_time: "日期有误或无依据", doubt_event: "与材料不符",
    doubt_unsupported: "没有材料支持", doubt_uncited: "未注明来源", doubt_unresolved: "已移除的引用",
    doubt_typed_table: "手写表格", doubt_repeated: "前文已述", doubt_figure: "图表失败", doubt_section: "缺少章节", doubt_unchecked: "未核对", doubt_truncated: "未完",
  },
};

export const EXAMPLES = {
  en: [
    "Compare the price performance and the maximum drawdown of Apple and Microsoft from 2015 to 2020",
    "Is there a pattern in the three days with the highest share price of Apple?",
    "How did US unemployment and inflation move from 2007 to 2009?",
  ],
  zh: ["比较苹果和微软2015年至2020年的股价表现和最大回撤", "苹果股价最高的三天有什么规律？", "2007年至2009年美国失业率和通胀如何变化？"],
};

const chosen = { language: remembered("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en") };

export const language = () => chosen.language;
export const word = (key) => WORDS[chosen.language][key] ?? key;
export const counted = (number, one, many) => `${number} ${word(number === 1 ? one : many)}`;

export function switchLanguage() {
  chosen.language = chosen.language === "zh" ? "en" : "zh";
  remember("language", chosen.language);
}

// Storage may be closed to an embedded page; a setting then lasts as long as the page.
export function remembered(key) {
  try {
    return localStorage.getItem(`fathom.${key}`);
  } catch {
    return null;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(`fathom.${key}`, value);
  } catch {
    // see above
  }
}

// Puts the words into the static parts of the page.
export function translate(root) {
  document.documentElement.lang = chosen.language;
  for (const place of root.querySelectorAll("[data-word]")) place.textContent = word(place.dataset.word);
  for (const place of root.querySelectorAll("[data-placeholder]")) place.placeholder = word(place.dataset.placeholder);
  for (const place of root.querySelectorAll("[data-label]")) {
    place.setAttribute("aria-label", word(place.dataset.label));
    if (place.tagName === "BUTTON") place.title = word(place.dataset.label);
  }
}
