// The card that shows what stands behind some words, while the pointer or the focus is on them.
import { HoverCard } from "radix-ui";
import { type ComponentProps, type ReactNode, useRef, useState } from "react";

interface Props extends ComponentProps<"button"> {
  // What the card shows, made when it opens; `anchor` is the button.
  card: (anchor: HTMLElement) => ReactNode;
}

export function Carded({ card, children, onClick, onBlur, ...button }: Props) {
  const [isOpen, setOpen] = useState(false);
  const anchor = useRef<HTMLButtonElement>(null);
  return (
    <HoverCard.Root open={isOpen} onOpenChange={setOpen} openDelay={0} closeDelay={0}>
      <HoverCard.Trigger asChild>
        <button ref={anchor} type="button" aria-describedby={isOpen ? "card" : undefined} {...button}
          // At once, not by Radix's timer: until then the card would take the Escape of a dialog that has just opened.
          onBlur={(event) => { setOpen(false); onBlur?.(event); }}
          onClick={(event) => { setOpen(false); onClick?.(event); }}>{children}</button>
      </HoverCard.Trigger>
      <HoverCard.Portal>
        <HoverCard.Content id="card" role="tooltip" sideOffset={6} collisionPadding={8} align="start">
          {isOpen && anchor.current && card(anchor.current)}
        </HoverCard.Content>
      </HoverCard.Portal>
    </HoverCard.Root>
  );
}
