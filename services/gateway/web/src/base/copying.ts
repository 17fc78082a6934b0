// A button that copies: what it says, and what it does.
import { useState } from "react";

export interface Copying {
  // The key of the word that stands on the button.
  said: string;
  // `rich` makes HTML of the text, for whatever takes it: others get the text.
  copy: (text: string | Promise<string>, rich?: (text: string) => string | Promise<string>) => Promise<void>;
}

export function useCopy(): Copying {
  const [said, setSaid] = useState("copy");
  const copy: Copying["copy"] = async (text, rich) => {
    const isDone = await write(await text, rich).then(() => true, () => false);
    setSaid(isDone ? "copied" : "noClipboard");
  };
  return { said, copy };
}

async function write(text: string, rich?: (text: string) => string | Promise<string>): Promise<void> {
  if (!rich) return navigator.clipboard.writeText(text);
  const as = (type: string, content: string): Record<string, Blob> => ({ [type]: new Blob([content], { type }) });
  return navigator.clipboard.write([new ClipboardItem({ ...as("text/plain", text), ...as("text/html", await rich(text)) })]);
}
