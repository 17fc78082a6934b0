// What a question that begins with a slash does in place of being asked: picked from the list, or written to its end.
import { asProblem } from "../base/api";
import { announce } from "../base/announce";
import { language, word } from "../base/words";
import { usePage } from "../page/context";
import type { PageParts } from "../page/context";
import type { Turn } from "../turn/turn";
import { type Format, FORMATS, saveAnswer } from "../turn/export";
import { type ModelList, WINDOWS, nameModel, useModels } from "./choices";

export interface Argument {
  value: string;
  title: string;
}

export interface Command {
  name: string;
  title: string;
  // Why it can do nothing now; "" where it can.
  obstacle: string;
  // What may follow it; empty for a command of one word.
  arguments: Argument[];
  act: (argument: string) => void;
}

// A word after the slash and one behind it, and nothing else: more words are a question, such as about "/ES futures".
const WRITTEN = /^\/(\p{L}+)(?:\s+(\S+))?\s*$/u;

export function useCommands(): Command[] {
  const parts = usePage();
  const models = useModels();
  return [...listPlain(parts), listExport(parts), listModel(parts, models), listCompact(parts)];
}

// Does what a text says where it is a command. Returns why it was not done, "" when it was, null for what is no command.
export function obey(text: string, commands: Command[]): string | null {
  const [, name, value = ""] = WRITTEN.exec(text) ?? [];
  if (!name) return null;
  const command = commands.find((one) => one.name === name.toLowerCase());
  if (!command) return word("unknownCommand").replace("{name}", `/${name}`).replace("{known}", commands.map((one) => `/${one.name}`).join(" "));
  if (command.obstacle) return `/${name}${word("colon")} ${command.obstacle}`;
  const argument = command.arguments.find((one) => one.value.toLowerCase() === value.toLowerCase());
  if (command.arguments.length ? !argument : value) return describeUnknown(command, value);
  command.act(argument?.value ?? "");
  return "";
}

// What is wrong with what stands behind a command, and what may stand there.
export function describeUnknown({ name, arguments: known }: Command, value: string): string {
  if (!known.length) return word("commandAlone").replace("{name}", `/${name}`);
  const listed = known.map((one) => one.value).join(" ");
  // By functions: "$&" in what was typed is no pattern.
  return word(value ? "unknownArgument" : "argumentWanted").replace("{name}", `/${name}`).replace("{known}", () => listed).replace("{value}", () => value);
}

function listPlain({ session, layout, preferences }: PageParts): Command[] {
  const turn = session.turns.at(-1);
  const obstacle = turn?.run.over ? "" : word("noAnswerYet");
  const command = (name: string, title: string, act: () => void, why = ""): Command => ({ name, title, obstacle: why, arguments: [], act });
  return [
    command("new", word("fresh"), () => session.fresh()),
    command("again", word("askAgain"), () => { if (turn) void session.ask(turn.run.question); }, obstacle),
    command("share", word("share"), () => { if (turn) layout.share({ run: turn.run.id, conversation: session.conversation }); }, obstacle),
    command("find", word("palette"), () => layout.open("palette")),
    command("settings", word("settings"), () => layout.open("settings")),
    command("keys", word("keys"), () => layout.open("help")),
    command("language", word("language"), () => preferences.speak(language() === "zh" ? "en" : "zh")),
  ];
}

function listExport({ session }: PageParts): Command {
  const turn = session.turns.at(-1);
  const save = async (of: Turn, format: Format): Promise<void> => {
    announce(`${word("making")} ${word(`export_${format}`)}`);
    await saveAnswer(of.run.id, format).catch((thrown: unknown) => session.complain(asProblem(thrown).message));
  };
  return {
    name: "export", title: word("export"), obstacle: turn?.run.over && turn.run.text ? "" : word("noAnswerYet"),
    arguments: FORMATS.map((format) => ({ value: format, title: word(`export_${format}`) })),
    act: (format) => { if (turn) void save(turn, format as Format); },
  };
}

function listModel({ session }: PageParts, { models }: ModelList): Command {
  return {
    name: "model", title: word("model"), obstacle: models.length ? "" : word("noModels"),
    arguments: models.map((model) => ({ value: model.name, title: nameModel(model) })),
    act: (model) => {
      session.choice = { ...session.choice, model };
      session.changed();
      announce(`${word("model")}${word("colon")} ${model}`);
    },
  };
}

// What becomes of the earlier steps of the next questions when they fill the model's window; where the page is narrow it
// is chosen here alone.
function listCompact({ preferences }: PageParts): Command {
  const known = WINDOWS.map((policy) => ({ value: policy || "standard", title: word(`compact_${policy || "standard"}`), policy }));
  return {
    name: "compact", title: word("compact"), obstacle: "", arguments: known,
    act: (name) => {
      const chosen = known.find(({ value }) => value === name);
      if (!chosen) return;
      preferences.choose("window", chosen.policy);
      announce(`${word("compact")}${word("colon")} ${chosen.title}`);
    },
  };
}
