// Which columns of a table are shown, and which stay in sight while the others scroll.
import { DropdownMenu } from "radix-ui";

import { language, word } from "../../base/words";
import type { SheetColumn } from "./table";

// A table without any column would have nothing to be got back from.
const isLast = (columns: SheetColumn[], column: SheetColumn): boolean => columns.every((other) => other === column || !other.getIsVisible());

export function ColumnsMenu({ columns }: { columns: readonly SheetColumn[] }) {
  const keepOpen = (event: Event): void => event.preventDefault();
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild><button type="button" className="quiet more">{word("columnsMenu")}</button></DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu columns-menu" align="end" collisionPadding={8} lang={language()}>
          <DropdownMenu.Label>{word("shownColumns")}</DropdownMenu.Label>
          {columns.map((column) => (
            <DropdownMenu.CheckboxItem key={column.id} checked={column.getIsVisible()} disabled={isLast([...columns], column)} onSelect={keepOpen}
              onCheckedChange={(isShown) => column.toggleVisibility(isShown)}>
              <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>{String(column.columnDef.header)}
            </DropdownMenu.CheckboxItem>
          ))}
          <DropdownMenu.Label>{word("pinnedColumns")}</DropdownMenu.Label>
          {columns.map((column) => (
            <DropdownMenu.CheckboxItem key={column.id} checked={column.getIsPinned() === "start"} onSelect={keepOpen}
              onCheckedChange={(isPinned) => column.pin(isPinned ? "start" : false)}>
              <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>{String(column.columnDef.header)}
            </DropdownMenu.CheckboxItem>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
