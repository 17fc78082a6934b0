// How the conversation shows its tables: the titles that the reader gave them, and which stand first. Memory keeps both.
import { skipToken, useQuery, useQueryClient } from "@tanstack/react-query";

import { patch, path } from "../base/api";
import { KEYS } from "../base/queries";
import type { Sheet, SheetView } from "../contract/types";
import { usePage } from "../page/context";

const NONE: SheetView[] = [];

// They come with the turns of the conversation, which are read when it is opened and after each run.
export const useSheetViews = (): SheetView[] =>
  useQuery<SheetView[]>({ queryKey: KEYS.sheets(usePage().session.conversation), queryFn: skipToken }).data ?? NONE;

export const titleIn = (views: SheetView[], sheet: Sheet): string => views.find(({ sheet_id }) => sheet_id === sheet.id)?.title || sheet.title;

// A table's title as the conversation shows it.
export const useSheetTitle = (sheet: Sheet): string => titleIn(useSheetViews(), sheet);

// Keeps how a table is shown from now on; resolves when memory has it, and throws what it says otherwise.
export function useShowing(): (view: SheetView) => Promise<void> {
  const queries = useQueryClient();
  const { session } = usePage();
  return async (view) => {
    const { conversation } = session;
    await patch(path("conversations", conversation), { sheet: view });
    queries.setQueryData<SheetView[]>(KEYS.sheets(conversation), (known = NONE) => [...known.filter(({ sheet_id }) => sheet_id !== view.sheet_id), view]);
  };
}
