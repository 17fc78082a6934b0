// Calls to the gateway; failures are problem details (RFC 9457).

export class Problem extends Error {
  constructor(members) {
    super(members.detail || members.title || `HTTP ${members.status}`);
    this.status = members.status;
    this.field = members.field ?? "";
    this.culprit = members.culprit ?? "";
  }
}

export async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Problem({ status: 0, detail: "the gateway cannot be reached", culprit: "gateway" });
  }
  if (!response.ok) {
    const members = await response.json().catch(() => ({}));
    throw new Problem({ ...members, status: response.status });
  }
  return response.status === 204 ? null : response.json();
}

const send = (method) => (path, body = {}) =>
  call(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
export const post = send("POST");
export const put = send("PUT");

// A path whose parts are data.
export const path = (...parts) => `/v1/${parts.map(encodeURIComponent).join("/")}`;
