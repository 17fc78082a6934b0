// The page's words in both languages.
const WORDS = {
  en: {
    ask: "Ask", placeholder: "Ask about companies, prices, rates, the economy…", fresh: "New question",
    compliance: "For information, not investment advice. Answers rest on bundled data; see each source's date.",
    sources: "Sources", data: "Data", code: "Code", trace: "Trace", waiting: "waiting for the planner", stop: "Stop",
    steps: "steps", missing: "missing", rows: "rows", previous: "Previous", next: "Next", nothing: "Nothing here yet.",
    rules: "rules: reference policy, not a language model", failed: "The run ended without an answer", gone: "does not exist",
    asof: "data as of", drawing: "drawing…", unreachable: "cannot be reached",
  },
  zh: {
    ask: "提问", placeholder: "可以问公司、股价、利率、宏观经济……", fresh: "新问题",
    compliance: "仅供参考，不构成投资建议。回答基于内置数据，请留意各来源的日期。",
    sources: "来源", data: "数据", code: "代码", trace: "过程", waiting: "等待规划器", stop: "停止",
    steps: "步", missing: "缺失", rows: "行", previous: "上一页", next: "下一页", nothing: "暂无内容。",
    rules: "rules：参考策略，不是语言模型", failed: "本次运行没有得到答案", gone: "不存在",
    asof: "数据截至", drawing: "绘制中……", unreachable: "无法连接",
  },
};

let language = localStorage.getItem("language") || (navigator.language.startsWith("zh") ? "zh" : "en");

export const word = (key) => WORDS[language][key] ?? key;
export const current = () => language;
export function toggle() {
  language = language === "zh" ? "en" : "zh";
  localStorage.setItem("language", language);
}
