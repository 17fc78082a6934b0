// What the columns of a table that was brought mean: datafetch's proposal, and the series that are made with what was taken.
import { type UseQueryResult, useQuery } from "@tanstack/react-query";

import { call, path, put } from "../base/api";
import { KEYS } from "../base/queries";
import type { AppliedMeaning, MeantColumn, ProposedMeaning, Sheet } from "../contract/types";
import type { Upload } from "./uploads";

// What was made of a table with the meaning of its columns, and the rows and cells that are in none of it.
export interface MadeSeries {
  sheet: Sheet;
  issues: number;
}

const readProposal = (sheet: string): Promise<ProposedMeaning> => call<ProposedMeaning>(path("tables", sheet, "meaning"));

// A sheet never changes, and so does what is proposed for it.
export const useProposal = ({ imported = "" }: Upload): UseQueryResult<ProposedMeaning> =>
  useQuery({ queryKey: KEYS.meaning(imported), queryFn: () => readProposal(imported), staleTime: Infinity, enabled: imported !== "" });

export async function applyMeaning({ imported = "" }: Upload, columns: MeantColumn[]): Promise<MadeSeries> {
  const { sheet, issues } = await put<AppliedMeaning>(path("tables", imported, "meaning"), { columns });
  // The contract allows an answer without its sheet, which nothing could be asked about.
  if (!sheet) throw new Error("the answer has no table");
  return { sheet, issues: issues.length };
}

// The tables that go with a question for a file. The table as it was read has what series leave out: names of columns and
// of rows, and texts.
export function idsOf({ imported, sheet, columns }: Upload): string[] {
  const roles = new Set(columns?.map(({ role }) => role));
  const isRawUsed = imported && columns && (!roles.has("date") || roles.has("label") || roles.has("ignored"));
  return [sheet?.id, isRawUsed && imported].filter((id): id is string => Boolean(id));
}
