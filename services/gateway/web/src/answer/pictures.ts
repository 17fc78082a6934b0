// Pictures of the figures that an answer shows, for files that cannot draw: on white, whatever the theme.

interface Drawn extends HTMLElement {
  data?: object[];
  layout?: Record<string, unknown>;
}
interface Drawer {
  toImage(drawing: object, options: object): Promise<string>;
}

const WIDTH = 960;
const HEIGHT = 480;
// The server takes one megabyte, which base64 makes a third more.
const MAX_CHARS = 900_000;
const INK = "#17212e";
const LINE = "#dde3ea";

// By the figures' ids, as PNG in base64; those that cannot be drawn are left out, and the file says so.
export async function picturesOf(answer: HTMLElement): Promise<Record<string, string>> {
  const library = (globalThis as unknown as { Plotly?: Drawer }).Plotly;
  const pictures: Record<string, string> = {};
  let chars = 0;
  for (const figure of library ? answer.querySelectorAll<HTMLElement>("[data-figure]") : []) {
    const place = figure.querySelector<Drawn>(".plot");
    if (!library || !place?.data || !place.layout) continue;
    const axes = Object.entries(place.layout).filter(([key]) => /^[xy]axis\d*$/.test(key))
      .map(([key, axis]) => [key, { ...(axis as object), gridcolor: LINE, linecolor: LINE, zerolinecolor: LINE }] as const);
    const layout = {
      ...place.layout, ...Object.fromEntries(axes), paper_bgcolor: "#fff", plot_bgcolor: "#fff", width: WIDTH, height: HEIGHT,
      font: { ...(place.layout.font as object), color: INK },
    };
    const address = await library.toImage({ data: place.data, layout }, { format: "png", width: WIDTH, height: HEIGHT }).catch(() => "");
    const content = address.replace(/^data:image\/png;base64,/, "");
    chars += content.length;
    if (content && chars <= MAX_CHARS) pictures[figure.dataset.figure ?? ""] = content;
  }
  return pictures;
}
