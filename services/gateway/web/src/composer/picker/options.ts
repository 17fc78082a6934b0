// What can be picked: commands and frameworks, names of the catalogue, and what the conversation has brought.
import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { asProblem } from "../../base/api";
import { KEYS, readEntities, readFrameworks } from "../../base/queries";
import { useStore } from "../../base/store";
import { language, word } from "../../base/words";
import type { Framework, NamedEntity } from "../../contract/types";
import { usePage } from "../../page/context";
import { type Command, describeUnknown, useCommands } from "../commands";
import type { PageParts } from "../../page/context";
import type { Trigger } from "./trigger";

export interface Option {
  id: string;
  name: string;
  note: string;
  // What stands in the question when it is picked; "" for a command.
  words: string;
  act?: () => void;
}

export interface OptionList {
  options: Option[];
  // Whether what is shown is not yet what was typed.
  isReading: boolean;
  problem: string;
}

const MOST = 12;

const fits = (query: string, ...texts: string[]): boolean => {
  const typed = query.toLowerCase();
  return texts.some((text) => text.toLowerCase().includes(typed));
};

export function useOptions(trigger: Trigger | null): OptionList {
  const parts = usePage();
  useStore(parts.session);
  useStore(parts.uploads);
  const commands = useCommands().filter(({ obstacle }) => !obstacle);
  const query = trigger?.query.trim() ?? "";
  const entities = useQuery({
    queryKey: KEYS.entities(query), queryFn: () => readEntities(query), enabled: trigger?.sign === "@" && query !== "",
    placeholderData: keepPreviousData, retry: false,
  });
  const frameworks = useQuery({ queryKey: KEYS.frameworks, queryFn: readFrameworks, enabled: trigger?.sign === "/", staleTime: Infinity });
  if (!trigger) return { options: [], isReading: false, problem: "" };
  if (trigger.sign === "@") {
    const found = query ? (entities.data?.entities ?? []) : [];
    return { options: found.map(nameEntity), isReading: entities.isFetching, problem: entities.error ? asProblem(entities.error).message : "" };
  }
  if (trigger.sign === "#") return { options: listMaterial(parts, query).slice(0, MOST), isReading: false, problem: "" };
  const begun = findBegun(trigger.query, commands);
  if (begun) return begun;
  const listed = (frameworks.data?.frameworks ?? []).map(nameFramework);
  const options = [...commands.map(nameCommand), ...listed].filter(({ name, id }) => fits(query, name, id)).slice(0, MOST);
  return { options, isReading: frameworks.isFetching, problem: "" };
}

// The name in the reader's language and the code, which no other company has.
function nameEntity({ id, name, name_zh, kind }: NamedEntity): Option {
  const said = language() === "zh" ? name_zh || name : name;
  const words = said && said !== id ? (language() === "zh" ? `${said}（${id}）` : `${said} (${id})`) : id;
  return { id: `entity ${id}`, name: said || id, note: [id, kind].filter(Boolean).join(" · "), words };
}

function nameFramework(framework: Framework): Option {
  const said = language() === "zh" ? framework.name_zh || framework.name : framework.name;
  return { id: `framework ${framework.topic}`, name: said, note: word("framework"), words: `${said}${word("colon")}` };
}

// One that wants a word behind it is completed, and its list goes on with those words.
function nameCommand(command: Command): Option {
  const { name, title, arguments: known, act } = command;
  return { id: `command ${name}`, name: title, note: `/${name}`, words: known.length ? `/${name}` : "", act: known.length ? undefined : () => act("") };
}

// What may stand behind a command that is written already; null where none is.
function findBegun(query: string, commands: Command[]): OptionList | null {
  const [, name, typed = ""] = /^(\p{L}+)\s(.*)$/u.exec(query) ?? [];
  const command = commands.find((one) => one.name === name?.toLowerCase());
  if (!command?.arguments.length) return null;
  const value = typed.trim();
  const options = command.arguments.filter((one) => fits(value, one.value, one.title))
    .map((one): Option => ({ id: `command ${command.name} ${one.value}`, name: one.title, note: `/${command.name} ${one.value}`, words: "", act: () => command.act(one.value) }));
  return { options: options.slice(0, MOST), isReading: false, problem: options.length ? "" : describeUnknown(command, value) };
}

// Tables and figures of the conversation, the newest first, and the reader's own files.
function listMaterial({ session, uploads }: PageParts, query: string): Option[] {
  const found = new Map<string, Option>();
  const add = (kind: string, title: string, note: string): void => {
    if (title && !found.has(`${kind} ${title}`) && fits(query, title, note)) {
      found.set(`${kind} ${title}`, { id: `${kind} ${title}`, name: title, note, words: language() === "zh" ? `《${title}》` : `“${title}”` });
    }
  };
  for (const item of uploads.items) if (item.state === "read") add("file", item.name, word(item.sheet ? "sheet" : "passage"));
  for (const { run } of [...session.turns].reverse()) {
    for (const { sheet } of run.of("sheet")) add("sheet", sheet.title, word("sheet"));
    for (const { code } of run.of("code")) for (const figure of code.figures) add("figure", figure.title, word("figure"));
  }
  return [...found.values()];
}
