// Where the reader is stands in the address, #c=<conversation>&run=<run>, so that a reload in mid-run goes on.

export interface Place {
  conversation: string;
  run: string;
}

export function readPlace(): Place {
  const parts = new URLSearchParams(location.hash.slice(1));
  return { conversation: parts.get("c") ?? "", run: parts.get("run") ?? "" };
}

export function writePlace({ conversation, run }: Place): void {
  const parts = new URLSearchParams({ ...(conversation && { c: conversation }), ...(run && { run }) });
  history.replaceState(null, "", `#${parts}`);
}
