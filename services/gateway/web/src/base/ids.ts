// Keys of what the page asks for: a request that is sent again under the same one is carried out once.
const ID_BYTES = 16;

// Not randomUUID, which only secure contexts have: a page in a company's network may be served without TLS.
export const makeRequestId = (kind: string): string =>
  `${kind}_${[...crypto.getRandomValues(new Uint8Array(ID_BYTES))].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
