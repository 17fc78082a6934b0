// The files that go with the question, as chips.
import { count } from "../base/format";
import { useStore } from "../base/store";
import { counted, plural, word } from "../base/words";
import { usePage } from "../page/context";
import { useProposal } from "./meanings";
import { type Upload, isTable } from "./uploads";

export function UploadChips() {
  const { uploads } = usePage();
  const { items } = useStore(uploads);
  if (!items.length) return null;
  return (
    <ul id="uploads" className="gaps" aria-label={word("uploads")}>{items.map((item, place) => (
      <li key={place} className={`chip ${isTable(item.name) ? "sheet" : "document"}`} aria-busy={item.state === "reading"}>
        {item.state === "reading" && <span className="spin" aria-hidden />}
        <span className="name" title={item.name}>{item.name}</span><span className="dim" title={item.note}>{describeUpload(item)}</span>
        {item.imported && <ColumnsButton upload={item} />}
        <button type="button" className="quiet" aria-label={`${word("remove")}: ${item.name}`} onClick={() => {
          uploads.drop(item);
          document.getElementById("attach")?.focus();
        }}>✕</button>
      </li>
    ))}</ul>
  );
}

// Opens what the columns mean. It asks for a look where the file's own names and types do not say it all.
function ColumnsButton({ upload }: { upload: Upload }) {
  const { layout } = usePage();
  const { data } = useProposal(upload);
  const state = upload.columns ? "meaningUsed" : data?.adds ? "meaningWaits" : "columnsMeaning";
  return (
    <button type="button" className={state === "meaningWaits" ? "quiet warned" : "quiet"} aria-label={`${word("columnsMeaning")}: ${upload.name}`}
      title={word(state)} onClick={() => layout.describe(upload)}>
      {`${word("columnsShort")}${upload.columns ? " ✓" : data?.adds ? " ?" : ""}`}
    </button>
  );
}

// How large a file is, and what of it could not be read.
export function describeUpload({ sheet, passages, state, issues }: Upload): string {
  if (state === "reading") return word("readingFile");
  const size = sheet
    ? `${count(sheet.rows)} ${plural("rows", Number(sheet.rows))} · ${counted(sheet.columns.length, "columns")}`
    : counted(passages ?? 0, "passages");
  return issues ? `${size} · ${word(sheet ? "unreadRows" : "unreadParts")}${word("colon")} ${issues}` : size;
}
