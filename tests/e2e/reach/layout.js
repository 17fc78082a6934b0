// Return what a designer would call broken in the page as it is shown, one line each; [] for nothing.
// What is meant counts for nothing: an ellipsis, a place that scrolls, what lies under a dialog, a figure's own labels.
() => {
  const SLACK = 1.5;
  const OVERLAP = 3;
  const FOREIGN = ".plotly-figure, svg, canvas";
  const found = [];

  const describe = (element) => {
    const name = element.id ? `#${element.id}` : `${element.tagName.toLowerCase()}.${[...element.classList].join(".")}`;
    return `${name} "${element.textContent.trim().replace(/\s+/g, " ").slice(0, 60)}"`;
  };
  const isShown = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !element.closest("[inert]");
  // Text for screen readers alone lies in a box of a pixel.
  const isForEyes = (box) => box.width > 2 && box.height > 2;

  // Part of a box that the places around it show.
  const clip = (box, element) => {
    let { left, right, top, bottom } = box;
    for (let above = element; above && above !== document.body; above = above.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(above);
      const edge = above.getBoundingClientRect();
      if (overflowX !== "visible") [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      if (overflowY !== "visible") [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { left, right, top, bottom, width: right - left, height: bottom - top };
  };

  // Lines of text that a reader sees, as boxes: neither scrolled away nor under something else.
  const lines = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || !isShown(parent) || parent.closest(FOREIGN)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const whole of range.getClientRects()) {
      const box = clip(whole, parent);
      if (!isForEyes(box)) continue;
      const middle = Math.min(innerWidth - 2, Math.max(1, (box.left + box.right) / 2));
      const top = document.elementFromPoint(middle, (box.top + box.bottom) / 2);
      if (top && (top.contains(parent) || parent.contains(top))) lines.push({ box, parent });
    }
  }

  // What lies over the page on a ground of its own, as a card or a menu, covers text on purpose.
  const findLayer = (element) => {
    let hasGround = false;
    for (let above = element; above && above !== document.body; above = above.parentElement) {
      const { position, backgroundColor } = getComputedStyle(above);
      hasGround ||= !/^rgba\(.*, 0(\.\d+)?\)$|transparent/.test(backgroundColor);
      if (hasGround && /absolute|fixed|sticky/.test(position)) return above;
    }
    return document.body;
  };

  // Two lines in one place. Sorted by their tops, only neighbours can meet.
  lines.sort((one, other) => one.box.top - other.box.top);
  lines.forEach((one, place) => {
    for (let next = place + 1; next < lines.length && lines[next].box.top < one.box.bottom - OVERLAP; next += 1) {
      const other = lines[next];
      const width = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const height = Math.min(one.box.bottom, other.box.bottom) - other.box.top;
      if (one.parent !== other.parent && width > OVERLAP && height > OVERLAP && findLayer(one.parent) === findLayer(other.parent))
        found.push(`overlap: ${describe(one.parent)} and ${describe(other.parent)}`);
    }
  });

  // Text that leaves the window, where no place scrolls to it.
  const scrolls = (element) => {
    for (let above = element; above && above !== document.body; above = above.parentElement)
      if (/auto|scroll/.test(getComputedStyle(above).overflowX) && above.scrollWidth > above.clientWidth) return true;
    return false;
  };
  for (const { box, parent } of lines)
    if ((box.left < -SLACK || box.right > innerWidth + SLACK) && !scrolls(parent))
      found.push(`beyond the window: ${describe(parent)}`);

  // Text that its own box cuts off without a sign of it.
  for (const parent of new Set(lines.map((line) => line.parent))) {
    const style = getComputedStyle(parent);
    const isCut = (overflow, inner, outer) => /hidden|clip/.test(overflow) && inner > outer + SLACK;
    const isWide = style.textOverflow !== "ellipsis" && isCut(style.overflowX, parent.scrollWidth, parent.clientWidth);
    const isHigh = style.webkitLineClamp === "none" && isCut(style.overflowY, parent.scrollHeight, parent.clientHeight + OVERLAP);
    if (parent.clientWidth && (isWide || isHigh)) found.push(`cut off: ${describe(parent)}`);
  }

  // Panels and dialogs with nothing in them.
  const content = "button, input, select, textarea, img, svg, canvas, a[href], [role=status]";
  for (const panel of document.querySelectorAll("[role=tabpanel], [role=dialog], [role=menu], aside, main")) {
    const box = panel.getBoundingClientRect();
    if (!isShown(panel) || !isForEyes(box)) continue;
    if (!panel.innerText.trim() && ![...panel.querySelectorAll(content)].some(isShown))
      found.push(`empty: ${describe(panel)}`);
  }
  return [...new Set(found)];
}
