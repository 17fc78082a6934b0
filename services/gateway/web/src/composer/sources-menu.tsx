// Which sources the next questions may use: all of them, unless the reader switches some off. Kept for as long as the page.
import { useQuery } from "@tanstack/react-query";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";

import { asProblem } from "../base/api";
import { KEYS, readSources } from "../base/queries";
import { useStore } from "../base/store";
import { language, word } from "../base/words";
import { usePage } from "../page/context";

// Of the planner's own tools; servers of others' tools have their own names.
const OWN = ["data", "documents"];

export function SourcesMenu() {
  const { session } = usePage();
  useStore(session);
  const [isOpen, setOpen] = useState(false);
  // Read when it is wanted: how sources stand is asked of every service.
  const { data, error } = useQuery({ queryKey: KEYS.sources, queryFn: readSources, enabled: isOpen });
  const off = session.choice.sources_off;
  const servers = (data?.sources ?? []).filter(({ kind }) => kind === "tools").map(({ name }) => name);
  const name = off.length ? `${word("sourcesMenu")}${word("colon")} ${word("sourcesLess")} ${off.map(nameOf).join(", ")}` : word("sourcesMenu");
  const choose = (source: string, isUsed: boolean): void => {
    const rest = off.filter((other) => other !== source);
    session.choice = { ...session.choice, sources_off: isUsed ? rest : [...rest, source] };
    session.changed();
  };
  return (
    <DropdownMenu.Root modal={false} open={isOpen} onOpenChange={setOpen}>
      <DropdownMenu.Trigger asChild>
        <button id="sources-menu" type="button" className={off.length ? "more warned" : "quiet more"} aria-label={name} title={name}>
          {word("sourcesMenu")}
        </button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="start" collisionPadding={8} lang={language()}>
          <DropdownMenu.Label>{word("sourcesUsed")}</DropdownMenu.Label>
          {[...OWN, ...servers, ...off.filter((source) => !OWN.includes(source) && !servers.includes(source))].map((source) => (
            <DropdownMenu.CheckboxItem key={source} checked={!off.includes(source)} onSelect={(event) => event.preventDefault()}
              onCheckedChange={(isUsed) => choose(source, isUsed)}>
              <DropdownMenu.ItemIndicator aria-hidden>✓</DropdownMenu.ItemIndicator>{nameOf(source)}
            </DropdownMenu.CheckboxItem>
          ))}
          {error && <DropdownMenu.Label>{asProblem(error).message}</DropdownMenu.Label>}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

const nameOf = (source: string): string => (OWN.includes(source) ? word(`use_${source}`) : source);
