// A dialog of the page: what it is called, and its content.
import { Dialog } from "radix-ui";
import type { ReactNode } from "react";

import { useStore } from "../base/store";
import { word } from "../base/words";
import { usePage } from "./context";
import type { DialogName } from "./layout";

export function DialogSheet({ name, title, className = "", children }: { name: DialogName; title: string; className?: string; children: ReactNode }) {
  const { layout } = usePage();
  useStore(layout);
  return (
    <Dialog.Root open={layout.dialog === name} onOpenChange={(isOpen) => layout.open(isOpen ? name : "")}>
      <Dialog.Portal>
        <Dialog.Overlay className="veil" />
        <Dialog.Content className={`dialog ${className}`} aria-describedby={undefined} onCloseAutoFocus={layout.restoreFocus("dialog")}>
          <div className="dialog-head">
            <Dialog.Title>{title}</Dialog.Title>
            <Dialog.Close asChild><button type="button" className="quiet" aria-label={word("close")} title={word("close")}>✕</button></Dialog.Close>
          </div>
          {children}
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
