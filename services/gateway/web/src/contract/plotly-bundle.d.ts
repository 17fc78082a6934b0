// The bundle brings no types; answer/figures/plotly.ts has those that the page needs.
declare module "plotly.js-finance-dist-min" {
  const library: import("../answer/figures/plotly").Plotly;
  export default library;
}
