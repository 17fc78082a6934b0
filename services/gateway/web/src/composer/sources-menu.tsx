// Which sources the next questions may use: all of them, unless the reader switches some off. Kept for as long as the page.
import { useQuery } from "@tanstack/react-query";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";

import { asProblem } from "../base/api";
import { KEYS, readSources } from "../base/queries";
import { useStore } from "../base/store";
import { language, word } from "../base/words";
import { usePage } from "../page/context";

// Of the planner's own tools; servers of others' tools have their own names, vendors of data theirs behind a word.
const OWN = ["data", "documents"];
const VENDOR = "vendor:";

export function SourcesMenu() {
  const { session } = usePage();
  useStore(session);
  const [isOpen, setOpen] = useState(false);
  // Read when it is wanted: how sources stand is asked of every service.
  const { data, error } = useQuery({ queryKey: KEYS.sources, queryFn: readSources, enabled: isOpen });
  const off = session.choice.sources_off;
  const listed = data?.sources ?? [];
  const servers = listed.filter(({ kind }) => kind === "tools").map(({ name }) => name);
  // One that the operator has not turned on is asked by no question. What is off stays in the list until it is on again.
  const vendors = listed.filter(({ kind, state }) => kind === "vendor" && state !== "off").map(({ name }) => VENDOR + name);
  const others = off.filter((source) => ![...OWN, ...servers, ...vendors].includes(source));
  const sources = [...OWN, ...servers, ...others.filter((source) => !source.startsWith(VENDOR))];
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
          <Entries sources={sources} off={off} onChoose={choose} />
          <VendorEntries vendors={[...vendors, ...others.filter((source) => source.startsWith(VENDOR))]} off={off} onChoose={choose} />
          {error && <DropdownMenu.Label>{asProblem(error).message}</DropdownMenu.Label>}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

interface EntriesProps {
  sources: string[];
  off: string[];
  isDisabled?: boolean;
  onChoose: (source: string, isUsed: boolean) => void;
}

function Entries({ sources, off, isDisabled, onChoose }: EntriesProps) {
  return sources.map((source) => (
    <DropdownMenu.CheckboxItem key={source} checked={!off.includes(source)} disabled={isDisabled} onSelect={(event) => event.preventDefault()}
      onCheckedChange={(isUsed) => onChoose(source, isUsed)}>
      <DropdownMenu.ItemIndicator aria-hidden>✓</DropdownMenu.ItemIndicator>{nameOf(source)}
    </DropdownMenu.CheckboxItem>
  ));
}

// Vendors are asked for what the tables lack, by the same tool: without tables of data none of them is asked.
function VendorEntries({ vendors, off, onChoose }: { vendors: string[]; off: string[]; onChoose: EntriesProps["onChoose"] }) {
  if (!vendors.length) return null;
  return (
    <DropdownMenu.Group>
      <DropdownMenu.Label>{word("vendorsUsed")}</DropdownMenu.Label>
      <Entries sources={vendors} off={off} isDisabled={off.includes("data")} onChoose={onChoose} />
    </DropdownMenu.Group>
  );
}

const nameOf = (source: string): string => (OWN.includes(source) ? word(`use_${source}`) : source.replace(VENDOR, ""));
