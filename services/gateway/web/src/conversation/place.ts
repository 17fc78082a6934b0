// Where the reader is stands in the address, #c=<conversation>&run=<run>, so that a reload in mid-run goes on.

export interface Place {
  conversation: string;
  run: string;
  // The turn that the run follows, where it is not the newest; "" otherwise.
  after: string;
}

export function readPlace(): Place {
  const parts = new URLSearchParams(location.hash.slice(1));
  return { conversation: parts.get("c") ?? "", run: parts.get("run") ?? "", after: parts.get("after") ?? "" };
}

export const addressOfConversation = (conversation: string): string => `#${new URLSearchParams({ c: conversation })}`;

// Whether the address is of something else: the staff's area, or a part of a text.
export const isElsewhere = (): boolean => !/^(#?|#(c|run|after)=.*)$/.test(location.hash);

export function writePlace({ conversation, run, after }: Place): void {
  const parts = new URLSearchParams({ ...(conversation && { c: conversation }), ...(run && { run }), ...(after && { after }) });
  history.replaceState(null, "", `#${parts}`);
}
