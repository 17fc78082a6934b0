// Links that show an answer or a conversation to others: made, read, withdrawn.
import { call, path, post } from "../base/api";
import type { Link, LinkPage, MadeLink } from "../contract/types";

const PAGE = 200;

export interface Wish {
  run_id?: string;
  conversation_id?: string;
  audience: "tenant" | "anyone";
  language: string;
  gives_uploads: boolean;
  lifetime_days: number;
}

export const makeLink = (wish: Wish): Promise<MadeLink> => post(path("links"), wish);
export const withdrawLink = (id: string): Promise<unknown> => call(path("links", id), { method: "DELETE" });
export const readLinks = (token: string): Promise<LinkPage> =>
  call(`${path("links")}?${new URLSearchParams({ page_size: String(PAGE), page_token: token })}`);

// The whole address of a link, below the prefix at which the page itself is reached: the gateway's path has the prefix
// that it was told of, which is that one or, behind a proxy that says nothing, none.
export const addressOfLink = (made: MadeLink): string => new URL(made.path.slice(made.path.lastIndexOf("/shared/") + 1), document.baseURI).href;

export const isNewer = (one: Link, other: Link): number => other.created - one.created;
