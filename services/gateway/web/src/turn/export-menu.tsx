// The files that an answer can be taken as.
import { DropdownMenu } from "radix-ui";
import { type ReactNode, useState } from "react";

import { asProblem, path } from "../base/api";
import { announce } from "../base/announce";
import { language, word } from "../base/words";
import { addressOf, saveWord } from "./export";

export function ExportMenu({ run }: { run: string }) {
  const [isBusy, setBusy] = useState(false);
  const saveAsWord = async (): Promise<void> => {
    const answer = document.querySelector(`[data-run="${CSS.escape(run)}"] .answer`);
    if (!answer) return;
    setBusy(true);
    try {
      await saveWord(run, answer);
    } catch (thrown) {
      announce(asProblem(thrown).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        <button type="button" className="quiet more export" disabled={isBusy}>{word("export")}</button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="start" collisionPadding={8} lang={language()}>
          <DropdownMenu.Item onSelect={() => void saveAsWord()}>{word("export_docx")}</DropdownMenu.Item>
          <Link href={addressOf(run, "html", { print: "true" })} target="_blank">{word("export_print")}</Link>
          <Link href={addressOf(run, "html")} download>{word("export_html")}</Link>
          <Link href={addressOf(run, "md")} download>{word("export_md")}</Link>
          <Link href={path("runs", run)} download={`${run}.json`}>{word("export_json")}</Link>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

const Link = ({ children, ...link }: { href: string; target?: string; download?: boolean | string; children: ReactNode }) =>
  <DropdownMenu.Item asChild><a rel="noreferrer" {...link}>{children}</a></DropdownMenu.Item>;
