// A button whose work cannot be taken back: it asks first.
import { AlertDialog } from "radix-ui";
import type { ReactElement } from "react";

import { word } from "../base/words";

interface Props {
  // What asks, as a button.
  children: ReactElement;
  question: string;
  // What it is about.
  about: string;
  action: string;
  onConfirm: () => void;
}

export function Confirm({ children, question, about, action, onConfirm }: Props) {
  return (
    <AlertDialog.Root>
      <AlertDialog.Trigger asChild>{children}</AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className="veil" />
        <AlertDialog.Content className="dialog small">
          <AlertDialog.Title>{question}</AlertDialog.Title>
          <AlertDialog.Description>{about}</AlertDialog.Description>
          <div className="choice">
            <AlertDialog.Cancel asChild><button type="button">{word("cancel")}</button></AlertDialog.Cancel>
            <AlertDialog.Action asChild><button type="button" className="danger" onClick={onConfirm}>{action}</button></AlertDialog.Action>
          </div>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
