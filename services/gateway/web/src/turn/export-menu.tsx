// The files that an answer can be taken as.
import { DropdownMenu } from "radix-ui";
import { type ReactNode, useState } from "react";

import { asProblem } from "../base/api";
import { announce } from "../base/announce";
import { language, word } from "../base/words";
import { PICTURED, PLAIN, type Pictured, addressOf, saveAnswer } from "./export";

export function ExportMenu({ run }: { run: string }) {
  const [making, setMaking] = useState<Pictured | "">("");
  const [problem, setProblem] = useState("");
  const save = async (format: Pictured): Promise<void> => {
    setMaking(format);
    setProblem("");
    announce(`${word("making")} ${word(`export_${format}`)}`);
    try {
      await saveAnswer(run, format);
    } catch (thrown) {
      setProblem(asProblem(thrown).message);
    } finally {
      setMaking("");
    }
  };
  return (
    <>
      <DropdownMenu.Root modal={false}>
        <DropdownMenu.Trigger asChild>
          <button type="button" className="quiet more export" aria-busy={Boolean(making)}>
            {making && <span className="spin" aria-hidden />}{word("export")}
          </button>
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal>
          <DropdownMenu.Content className="menu" align="start" collisionPadding={8} lang={language()}>
            {PICTURED.map((format) => (
              <DropdownMenu.Item key={format} disabled={Boolean(making)} onSelect={() => void save(format)}>{word(`export_${format}`)}</DropdownMenu.Item>
            ))}
            {PLAIN.map((format) => <Link key={format} href={addressOf(run, format)} download>{word(`export_${format}`)}</Link>)}
            <Link href={addressOf(run, "html", { print: "true" })} target="_blank">{word("export_print")}</Link>
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      {problem && <span className="chip bad" role="alert">{problem}</span>}
    </>
  );
}

const Link = ({ children, ...link }: { href: string; target?: string; download?: boolean; children: ReactNode }) =>
  <DropdownMenu.Item asChild><a rel="noreferrer" {...link}>{children}</a></DropdownMenu.Item>;
