// Draws the figures of a report with plotly, which stands in the file before this script.
for (const place of document.querySelectorAll(".plot")) {
  const { data, layout } = JSON.parse(place.nextElementSibling.textContent);
  const size = { width: undefined, height: 420, autosize: true };
  Plotly.newPlot(place, data ?? [], { ...layout, ...size }, { responsive: true, displaylogo: false });
}
