// What an item is about: the conversation before it, its texts, and the material that they rest on.
import type { ReviewItem, ReviewText } from "../../contract/types";
import { Prose } from "../prose";
import { say } from "../words";

export function History({ item }: { item: ReviewItem }) {
  if (!item.history.length) return null;
  return (
    <section className="history" aria-label={say("conversation")}>
      <h2>{say("conversation")}</h2>
      <ol>{item.history.map(({ question, answer }, place) => (
        <li key={place}><p className="asked" lang={item.language || undefined}>{question}</p>{answer && <Prose text={answer} lang={item.language || undefined} />}</li>
      ))}</ol>
    </section>
  );
}

// A candidate's two texts have their names; those of a comparison only letters, since whose they are is not said.
const titleOf = (item: ReviewItem, place: number): string => {
  if (item.kind === "candidate") return say(place === 0 ? "rejectedText" : "proposedText");
  const name = say(`text_${item.kind}`);
  return item.texts.length > 1 ? `${name} ${item.texts[place]!.label}` : name;
};

export function Texts({ item }: { item: ReviewItem }) {
  const material = item.kind === "hallucination" || item.material ? item.material : null;
  return (
    <div className={`texts${item.texts.length + Number(material !== null) > 1 ? " beside" : ""}`}>
      {item.texts.map((text, place) => <TextCard key={text.label} title={titleOf(item, place)} text={text} item={item} />)}
      {material !== null && (
        <section className="text material" aria-label={say("material")} tabIndex={0}>
          <h2>{say("material")}</h2>
          {material ? <Prose text={material} /> : <p className="dim">{say("noMaterial")}</p>}
        </section>
      )}
    </div>
  );
}

function TextCard({ title, text, item }: { title: string; text: ReviewText; item: ReviewItem }) {
  return (
    <section className={`text ${item.kind}`} aria-label={title} tabIndex={0} data-label={text.label}>
      <h2>{title}{item.decision && <span className="chip owner">{`${say("owner")} ${text.owner || say("unknownOwner")}`}</span>}</h2>
      {text.text.trim() ? <Prose text={text.text} lang={item.language || undefined} /> : <p className="dim">{say("noText")}</p>}
    </section>
  );
}
