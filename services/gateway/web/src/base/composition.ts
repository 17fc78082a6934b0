// Whether a key belongs to an input method, which turns it into characters: Enter then takes a candidate and sends nothing.
import type { KeyboardEvent as ReactKeyboardEvent } from "react";

// Safari ends the composition before it reports the key that ended it; the code of such a key is still that of input methods.
const INPUT_METHOD_KEY = 229;

export function isComposing(event: KeyboardEvent | ReactKeyboardEvent): boolean {
  const native = "nativeEvent" in event ? event.nativeEvent : event;
  return native.isComposing || native.keyCode === INPUT_METHOD_KEY;
}
