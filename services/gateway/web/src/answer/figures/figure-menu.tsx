// What a reader takes from a figure: a picture, or the values behind it; and a look at it on the whole screen.
import { DropdownMenu } from "radix-ui";
import type { RefObject } from "react";

import { asProblem } from "../../base/api";
import { announce } from "../../base/announce";
import { save, saveText } from "../../base/files";
import { language, word } from "../../base/words";
import { asTitle } from "./drawing";
import type { Picture, Place, Plotly, Trace } from "./plotly";
import { completed, gridOf } from "./series";
import { asCsv } from "../tables/tsv";

const SCALE = 2;

interface Props {
  library: Plotly;
  place: RefObject<Place | null>;
  title: string;
  notes: string[];
  // The traces with all points, where fewer are drawn.
  whole?: Trace[];
}

export function FigureMenu({ library, place, title, notes, whole }: Props) {
  const picture = async (format: Picture["format"]): Promise<void> => {
    const target = place.current;
    if (!target) return;
    const scale = format === "png" ? SCALE : 1;
    const address = await library.toImage(target, { format, width: target.clientWidth * scale, height: target.clientHeight * scale });
    save(address, `${title}.${format}`);
  };
  const values = (): void => {
    const target = place.current;
    if (!target) return;
    const { header, rows } = gridOf(completed(target._fullData ?? [], whole), asTitle(target.layout?.xaxis?.title).text || "x");
    saveText(asCsv(header, rows, [title, ...notes]), `${title}.csv`, "text/csv;charset=utf-8");
  };
  const attempt = (act: () => unknown) => (): void => {
    Promise.resolve().then(act).catch((thrown: unknown) => announce(asProblem(thrown).message));
  };
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild><button type="button" className="quiet more">{word("save")}</button></DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" collisionPadding={8} lang={language()}>
          <DropdownMenu.Item onSelect={attempt(() => picture("png"))}>{word("savePng")}</DropdownMenu.Item>
          <DropdownMenu.Item onSelect={attempt(() => picture("svg"))}>{word("saveSvg")}</DropdownMenu.Item>
          <DropdownMenu.Item onSelect={attempt(values)}>{word("saveCsv")}</DropdownMenu.Item>
          <DropdownMenu.Item onSelect={attempt(() => place.current?.closest("figure")?.requestFullscreen())}>{word("fullScreen")}</DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
