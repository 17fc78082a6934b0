// Pictures of the figures that an answer shows, for files that cannot draw: on white, whatever the theme.
import { isAxis } from "./drawing";
import { type Place, plotlyFor } from "./plotly";

const WIDTH = 960;
const HEIGHT = 480;
// The server takes one megabyte, which base64 makes a third more.
const MAX_CHARS = 900_000;
const INK = "#17212e";
const LINE = "#dde3ea";

// By the figures' ids, as PNG in base64; those that cannot be drawn are left out, and the file says so.
export async function picturesOf(answer: ParentNode): Promise<Record<string, string>> {
  const pictures: Record<string, string> = {};
  let chars = 0;
  for (const figure of answer.querySelectorAll<HTMLElement>("[data-figure]")) {
    const { data, layout } = figure.querySelector<Place>(".plot") ?? {};
    if (!data || !layout) continue;
    const axes = Object.entries(layout).filter(([key]) => isAxis(key))
      .map(([key, axis]) => [key, { ...(axis as object), rangeselector: undefined, gridcolor: LINE, linecolor: LINE, zerolinecolor: LINE }] as const);
    const drawing = {
      ...layout, ...Object.fromEntries(axes), paper_bgcolor: "#fff", plot_bgcolor: "#fff", width: WIDTH, height: HEIGHT,
      font: { ...layout.font, color: INK },
    };
    const size = { format: "png", width: WIDTH, height: HEIGHT } as const;
    const address = await plotlyFor(data).then((library) => library.toImage({ data, layout: drawing }, size)).catch(() => "");
    const content = address.replace(/^data:image\/png;base64,/, "");
    chars += content.length;
    if (content && chars <= MAX_CHARS) pictures[figure.dataset.figure ?? ""] = content;
  }
  return pictures;
}
