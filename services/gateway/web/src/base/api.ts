// Calls to the gateway; failures are problem details (RFC 9457).
import { isOfProxy, report } from "./reach";

interface Members {
  status: number;
  title?: string;
  detail?: string;
  field?: string;
  culprit?: string;
}

export class Problem extends Error {
  readonly status: number;
  readonly field: string;
  readonly culprit: string;

  constructor(members: Members) {
    super(members.detail || members.title || `HTTP ${members.status}`);
    this.status = members.status;
    this.field = members.field ?? "";
    this.culprit = members.culprit ?? "";
  }
}

// Whatever was thrown, as a problem.
export const asProblem = (thrown: unknown): Problem =>
  (thrown instanceof Problem ? thrown : new Problem({ status: 0, detail: String(thrown) }));

export async function call<T>(address: string, options: RequestInit = {}): Promise<T> {
  let response: Response;
  try {
    response = await fetch(address, options);
  } catch {
    // A call that was given up says nothing of the gateway.
    if (!options.signal?.aborted) report("missed");
    throw new Problem({ status: 0, detail: "the gateway cannot be reached", culprit: "gateway" });
  }
  if (isOfProxy(response)) {
    report("missed");
    throw new Problem({ status: 0, detail: "the gateway cannot be reached", culprit: "gateway" });
  }
  report("reached");
  if (!response.ok) {
    const members = (await response.json().catch(() => ({}))) as Partial<Members>;
    throw new Problem({ ...members, status: response.status });
  }
  return (response.status === 204 ? null : await response.json()) as T;
}

const send = (method: string) => <T>(address: string, body: object = {}): Promise<T> =>
  call<T>(address, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
export const post = send("POST");
export const put = send("PUT");
export const patch = send("PATCH");

// A path whose parts are data. It is relative, so that a prefix before the page's own path is no matter.
export const path = (...parts: string[]): string => `v1/${parts.map(encodeURIComponent).join("/")}`;
