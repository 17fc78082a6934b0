// The sheet of keys.
import { word } from "../base/words";
import { SHORTCUTS } from "./keys";

export function Help() {
  return (
    <dl className="shortcuts">{SHORTCUTS.map(({ keys, name }) => (
      <div key={keys}><dt>{keys.split("+").map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{word(name)}</dd></div>
    ))}</dl>
  );
}
