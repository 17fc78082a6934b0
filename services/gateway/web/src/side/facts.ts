// Facts about the reader, as memory keeps them: their kinds, their values, and how they are read and changed.
import { type QueryClient, useQuery } from "@tanstack/react-query";

import { call, path, post, put } from "../base/api";
import { KEYS, readFacts } from "../base/queries";
import { word } from "../base/words";
import type { Fact } from "../contract/types";

const KIND = "FACT_KIND_";

export interface FactBody {
  kind: string;
  value: string;
  text: string;
}

// Values of the preferences that have a few; the others are written.
export const CHOICES: Record<string, string[]> = {
  units: ["thousand", "million", "billion", "wan", "yi"], language: ["en", "zh"], depth: ["quick", "standard", "deep"],
  colours: ["green_up", "red_up"], decimals: ["point", "comma"], memory: ["on", "off"],
};
export const KINDS = ["statement", "currency", "units", "language", "depth", "colours", "decimals", "watch_list", "memory"];

export const kindOfFact = (fact: Pick<Fact, "kind">): string => fact.kind.replace(KIND, "").toLowerCase().replace("unspecified", "statement");

// What a fact says in a few words: a preference by its value.
export const saidOf = (fact: Fact): string =>
  (fact.value ? `${word(`fact_${kindOfFact(fact)}`)} ${fact.value.replaceAll(",", ", ")}` : fact.text);

const NONE: Fact[] = [];

export const useFacts = (): Fact[] => useQuery({ queryKey: KEYS.facts, queryFn: readFacts }).data?.facts ?? NONE;

export const valueOf = (facts: Fact[], kind: string): string => facts.find((fact) => kindOfFact(fact) === kind)?.value ?? "";

export const addFact = (body: FactBody): Promise<unknown> => post(path("facts"), body);
export const editFact = (fact: Fact, body: FactBody): Promise<unknown> => put(path("facts", fact.id), { ...body, version: fact.version });
export const dropFact = (fact: Fact): Promise<unknown> => call(path("facts", fact.id), { method: "DELETE" });

// States a preference, or takes it back with "".
export async function prefer(queries: QueryClient, facts: Fact[], kind: string, value: string): Promise<void> {
  const known = facts.find((fact) => kindOfFact(fact) === kind);
  const body = { kind, value, text: `${word(`fact_${kind}`)}: ${word(`value_${value}`)}` };
  try {
    if (known && value) await editFact(known, body);
    else if (known) await dropFact(known);
    else if (value) await addFact(body);
  } finally {
    await queries.invalidateQueries({ queryKey: KEYS.facts });
  }
}
