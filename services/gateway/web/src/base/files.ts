// Files that the browser saves.

// The browser reads an address when it begins to save.
const KEPT_MS = 60_000;

export function save(address: string, name: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[\\/:*?"<>|\n]+/g, " ").trim().slice(0, 120) || "fathom";
  link.click();
}

export function saveBlob(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  save(address, name);
  setTimeout(() => URL.revokeObjectURL(address), KEPT_MS);
}

export const saveText = (text: string, name: string, type: string): void => saveBlob(new Blob([text], { type }), name);
