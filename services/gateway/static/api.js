// Calls to the gateway; failures are problem details (RFC 9457).
export class Problem extends Error {
  constructor(detail) { super(detail.detail || String(detail.status)); this.detail = detail; }
}

export async function call(path, options = {}) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Problem(await response.json().catch(() => ({ status: response.status })));
  return response.status === 204 ? null : response.json();
}

export const post = (path, body = {}) =>
  call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

// Follows a run. The browser reconnects by itself and says which event it saw last.
export function follow(runId, onEvent, onFailure) {
  const source = new EventSource(`/v1/runs/${encodeURIComponent(runId)}/events`);
  source.addEventListener("run", (message) => {
    const event = JSON.parse(message.data);
    onEvent(event);
    if (event.finished) source.close();
  });
  source.addEventListener("failure", (message) => { source.close(); onFailure(JSON.parse(message.data).error); });
  return source;
}
