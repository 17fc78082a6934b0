// The question as it is being written.
import { Store } from "../base/store";

export class Draft extends Store {
  text = "";

  write(text: string): void {
    if (text === this.text) return;
    this.text = text;
    this.changed();
  }
}
