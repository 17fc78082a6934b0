// How much the gateway takes, read once, so that the page names a bound before it sends what would be refused. Where the
// gateway does not tell, it is left to its refusal.
import { type QueryClient, useQuery } from "@tanstack/react-query";

import { count } from "../base/format";
import { KEYS, readLimits } from "../base/queries";
import { plural, word } from "../base/words";
import type { Limits } from "../contract/types";

const LIMITS = { queryKey: KEYS.limits, queryFn: readLimits, staleTime: Infinity };

export const useLimits = (): Limits | null => useQuery(LIMITS).data ?? null;

// By how much a question is too long, in words; "" for one that is not.
export function describeExcess(question: string, limits: Limits | null): string {
  const most = limits?.max_question_chars ?? Infinity;
  // Characters as the gateway counts them, which leaves out what stands around the question.
  const over = [...question.trim()].length - most;
  return over > 0 ? plural("tooLong", over).replace("{over}", count(over)).replace("{most}", count(most)) : "";
}

export const findLimits = (queries: QueryClient): Promise<Limits | null> =>
  queries.ensureQueryData({ ...LIMITS, retry: false }).catch(() => null);

// Why a file is not sent, in words; "" for one that may be. `tables` are those that go with the question already.
export function refuseFile(file: File, isTable: boolean, tables: number, limits: Limits | null): string {
  if (!limits) return "";
  const { max_upload_bytes: bytes, max_tables: most } = limits;
  if (file.size > bytes) return word("fileTooLarge").replace("{size}", count(file.size)).replace("{most}", count(bytes));
  return isTable && tables >= most ? plural("tooManyTables", most).replace("{most}", count(most)) : "";
}
