// A text as it was printed or written: code in colours, as soon as what colours it has been read.
import { Suspense, lazy } from "react";

import { readAgain } from "../connection/read-again";

export type CodeLanguage = "python" | "sql";
interface Written {
  text: string;
  language?: CodeLanguage;
}

// Colouring takes time with every character; nobody reads so long a code here.
const LONGEST = 20_000;
const AsWritten = ({ text }: Written): string => text;
const Highlighted = lazy(async () => ({ default: await readAgain(() => import("./highlighted")).then((read) => read.Highlighted, () => AsWritten) }));

// It may scroll, so that it takes the focus.
export function Printed({ text, language }: Written) {
  return <pre tabIndex={0}>{language && text.length <= LONGEST ? <Suspense fallback={text}><Highlighted text={text} language={language} /></Suspense> : text}</pre>;
}

export function Section({ title, ...written }: Written & { title: string }) {
  return <div className="io">{title && <span className="dim">{title}</span>}<Printed {...written} /></div>;
}
