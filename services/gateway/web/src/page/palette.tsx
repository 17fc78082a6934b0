// The palette: everything that can be done, and every conversation, by a few letters.
import { useQuery } from "@tanstack/react-query";
import { Command } from "cmdk";
import { type KeyboardEvent, type MouseEvent, useRef, useState } from "react";

import { KEYS, readConversations } from "../base/queries";
import { useStore } from "../base/store";
import { word } from "../base/words";
import { addressOfConversation } from "../conversation/place";
import { usePage } from "./context";
import { TABS } from "./layout";
import { addressOf, useMayReview } from "./route";

interface Action {
  name: string;
  keys?: string;
  act: () => void;
}

function useActions(): Action[] {
  const { layout, preferences, session } = usePage();
  useStore(preferences);
  useStore(session);
  const mayReview = useMayReview();
  const close = (act: () => void) => (): void => {
    layout.open("");
    act();
  };
  const { running } = session;
  return [
    { name: word("fresh"), keys: "Ctrl+Shift+O", act: close(() => session.fresh()) },
    ...(running ? [{ name: word("stop"), keys: "Esc", act: close(() => void running.stop()) }] : []),
    ...TABS.map((tab) => ({ name: `${word("panel")}: ${word(tab)}`, act: close(() => layout.show(tab)) })),
    { name: word("language"), act: close(() => preferences.speak(preferences.language === "zh" ? "en" : "zh")) },
    { name: word("theme"), act: close(() => preferences.paint(preferences.isDark ? "light" : "dark")) },
    { name: word("settings"), act: () => layout.open("settings") },
    { name: word("links"), act: () => layout.share(null) },
    { name: word("schedules"), act: () => layout.repeat(null) },
    { name: word("keys"), keys: "Ctrl+/", act: () => layout.open("help") },
    { name: word("frameworks"), act: () => location.assign("frameworks") },
    { name: word("trainings"), act: () => location.assign("trainings") },
    ...(mayReview ? [{ name: word("review"), act: close(() => location.assign(addressOf(""))) }] : []),
  ];
}

// With a key of the browser's a link opens another window, and nothing is done here.
const isForBrowser = ({ ctrlKey, metaKey, shiftKey }: MouseEvent | KeyboardEvent): boolean => ctrlKey || metaKey || shiftKey;

const openBeside = (event: KeyboardEvent, list: HTMLElement | null): void => {
  const link = list?.querySelector<HTMLAnchorElement>("a[cmdk-item][aria-selected='true']");
  if (event.key !== "Enter" || !isForBrowser(event) || !link) return;
  event.preventDefault();
  window.open(link.href, "_blank", "noopener");
};

export function Palette() {
  const { layout, session } = usePage();
  const [text, setText] = useState("");
  const list = useRef<HTMLDivElement>(null);
  const query = text.trim();
  const found = useQuery({ queryKey: [...KEYS.conversations, "palette", query], queryFn: () => readConversations(query, ""), placeholderData: (before) => before });
  const actions = useActions().filter(({ name }) => name.toLowerCase().includes(query.toLowerCase()));
  return (
    <Command label={word("palette")} shouldFilter={false} loop onKeyDown={(event) => openBeside(event, list.current)}>
      <Command.Input value={text} onValueChange={setText} placeholder={word("paletteHint")} autoFocus />
      <Command.List ref={list}>
        <Command.Empty>{word("nothingFound")}</Command.Empty>
        {actions.length > 0 && (
          <Command.Group heading={word("actions")}>{actions.map(({ name, keys, act }) => (
            <Command.Item key={name} value={`act ${name}`} onSelect={act}><span>{name}</span>{keys && <kbd>{keys}</kbd>}</Command.Item>
          ))}</Command.Group>
        )}
        {found.data && found.data.conversations.length > 0 && (
          <Command.Group heading={word("conversations")}>{found.data.conversations.map(({ id, title }) => (
            <Command.Item key={id} value={`open ${id}`} onSelect={() => { layout.open(""); void session.open(id); }} asChild>
              {/* Before cmdk hears of the click, which would open it here as well. */}
              <a href={addressOfConversation(id)} tabIndex={-1} onClickCapture={(event) => (isForBrowser(event) ? event.stopPropagation() : event.preventDefault())}>{title}</a>
            </Command.Item>
          ))}</Command.Group>
        )}
      </Command.List>
    </Command>
  );
}
