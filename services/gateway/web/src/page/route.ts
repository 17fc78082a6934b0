// What the address asks for: the page, or a part of the staff's area, #/review/<part>, which is a page of its own.
import { useQuery } from "@tanstack/react-query";

import { KEYS, readRights } from "../base/queries";
import { Store } from "../base/store";

const STAFF = "#/review";

export class Route extends Store {
  #hash = location.hash;
  // Where on the page the reader was when he turned to the staff's area.
  back = "#";

  constructor() {
    super();
    addEventListener("hashchange", ({ oldURL }) => {
      if (!this.isStaff) this.back = new URL(oldURL).hash || "#";
      this.#hash = location.hash;
      this.changed();
    });
  }

  get isStaff(): boolean { return this.#hash === STAFF || this.#hash.startsWith(`${STAFF}/`); }
  // The part of the staff's area; "" for its beginning.
  get part(): string { return this.isStaff ? this.#hash.slice(STAFF.length + 1) : ""; }
}

export const addressOf = (part: string): string => (part ? `${STAFF}/${part}` : STAFF);

// Whether the reader may decide on what waits for people: who may not is not led there.
export function useMayReview(): boolean {
  const { data } = useQuery({ queryKey: KEYS.rights, queryFn: readRights, staleTime: Infinity });
  return data?.rights.includes("review") ?? false;
}
