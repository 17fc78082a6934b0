// The bar above everything: which model answers, language, theme, and what opens conversations and details.
import { useModels } from "../composer/choices";
import { useStore } from "../base/store";
import { announce } from "../base/announce";
import { word } from "../base/words";
import { usePage } from "./context";

export function Header() {
  const { layout } = usePage();
  useStore(layout);
  if (layout.isEmbedded) return <EmbeddedBar />;
  return (
    <header>
      {layout.isSidebarOver && <SidebarToggle />}
      <img src="static/icon.svg" alt="" width={20} height={20} />
      <strong className="brand">Fathom</strong>
      <ModelBadges />
      <span className="spacer" />
      <button type="button" className="quiet find wide-only" aria-keyshortcuts="Control+K" onClick={() => layout.open("palette")}>
        {word("palette")}<kbd>Ctrl K</kbd>
      </button>
      <LanguageSwitch />
      <ThemeSwitch />
      <PanelToggle />
    </header>
  );
}

// Beside another program: no header of its own, only what leads to a new question, to others, and to the details.
function EmbeddedBar() {
  const { session } = usePage();
  return (
    <div className="embedded-bar" role="toolbar" aria-label="Fathom">
      <SidebarToggle />
      <button type="button" className="quiet" onClick={() => { session.fresh(); document.getElementById("question")?.focus(); }}>{word("fresh")}</button>
      <span className="spacer" />
      <LanguageSwitch />
      <PanelToggle />
    </div>
  );
}

function SidebarToggle() {
  const { layout } = usePage();
  useStore(layout);
  return <button id="sidebar-toggle" type="button" className="quiet" aria-label={word("conversations")} title={word("conversations")}
    aria-expanded={layout.isSidebarOpen} onClick={() => layout.toggleSidebar()}>☰</button>;
}

function PanelToggle() {
  const { layout } = usePage();
  useStore(layout);
  return <button id="panel-toggle" type="button" className="quiet" aria-label={word("panel")} title={word("panel")}
    aria-expanded={layout.isPanelOpen} onClick={() => layout.togglePanel()}>◨</button>;
}

function ModelBadges() {
  const models = useModels();
  const name = models.problem || (models.isRules ? word("rules") : models.chosen);
  return (
    <>
      {name && <span id="model-label" className={`badge${models.isRules ? " rules" : ""}`}>{name}</span>}
      {models.warming.length > 0 && <span id="model-warming" className="badge warming">{`${models.warming.join(", ")}: ${word("warming")}`}</span>}
    </>
  );
}

export function LanguageSwitch() {
  const { preferences } = usePage();
  useStore(preferences);
  const other = preferences.language === "zh" ? "en" : "zh";
  return <button id="language" type="button" className="quiet" lang={other} title={word("language")} onClick={() => {
    preferences.speak(other);
    announce(word("languageNow"));
  }}>{other === "zh" ? "中文" : "English"}</button>;
}

export function ThemeSwitch() {
  const { preferences } = usePage();
  useStore(preferences);
  return <button id="theme" type="button" className="quiet" aria-label={word("theme")} title={word("theme")} aria-pressed={preferences.isDark}
    onClick={() => preferences.paint(preferences.isDark ? "light" : "dark")}>◐</button>;
}
