// Says something to screen readers without moving the focus.
export function announce(text: string): void {
  const place = document.getElementById("live");
  if (place) place.textContent = text;
}
