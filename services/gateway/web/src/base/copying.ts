// A button that copies: what it says, and what it does.
import { useState } from "react";

export interface Copying {
  // The key of the word that stands on the button.
  said: string;
  copy: (text: string | Promise<string>) => Promise<void>;
}

export function useCopy(): Copying {
  const [said, setSaid] = useState("copy");
  const copy = async (text: string | Promise<string>): Promise<void> => {
    const isDone = await navigator.clipboard.writeText(await text).then(() => true, () => false);
    setSaid(isDone ? "copied" : "noClipboard");
  };
  return { said, copy };
}
