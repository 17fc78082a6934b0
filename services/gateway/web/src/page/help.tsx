// The sheet of keys.
import { word } from "../base/words";
import { SHORTCUTS } from "./keys";
import { DialogSheet } from "./sheet";

export function Help() {
  return (
    <DialogSheet name="help" title={word("keys")}>
      <dl className="shortcuts">{SHORTCUTS.map(({ keys, name }) => (
        <div key={keys}><dt>{keys.split("+").map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{word(name)}</dd></div>
      ))}</dl>
    </DialogSheet>
  );
}
