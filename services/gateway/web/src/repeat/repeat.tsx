// The dialog of schedules: when a question is asked again, and all that are.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useRef, useState } from "react";

import { asProblem } from "../base/api";
import { announce } from "../base/announce";
import { minuteOfSecond } from "../base/format";
import { makeRequestId } from "../base/ids";
import { KEYS, isPassing } from "../base/queries";
import { useStore } from "../base/store";
import { language, word } from "../base/words";
import type { Schedule } from "../contract/types";
import { Choice } from "../page/choice";
import { usePage } from "../page/context";
import type { Repeated } from "../page/layout";
import { ScheduleEntries } from "./schedule-list";
import { EVERY, type Every, type NewSchedule as Wish, daysOf, listZones, makeSchedule, nameOfWeekday, ownZone } from "./schedules";

// Before the markets of the reader open.
const USUAL = "08:00";
const SURE_DAYS = 28;

export function Repeat() {
  const { layout } = usePage();
  useStore(layout);
  return <>{layout.repeated && <NewSchedule repeated={layout.repeated} />}<ScheduleEntries /></>;
}

function NewSchedule({ repeated }: { repeated: Repeated }) {
  const queries = useQueryClient();
  const timeId = useId();
  const [every, setEvery] = useState<Every>("day");
  const [day, setDay] = useState(1);
  const [at, setAt] = useState(USUAL);
  const [zone, setZone] = useState(ownZone());
  const [made, setMade] = useState<Schedule | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  // What was sent and not answered: sent again as it was, it makes no second schedule.
  const unanswered = useRef<{ choices: string; wish: Wish } | null>(null);
  const describe = async (): Promise<Wish> => {
    const choices = [every, day, at, zone].join();
    if (unanswered.current?.choices !== choices) {
      const ask = await repeated.describe();
      unanswered.current = { choices, wish: { ask, every, at, time_zone: zone, day: daysOf(every) && day, run_id: repeated.run, request_id: makeRequestId("schedule") } };
    }
    return unanswered.current.wish;
  };
  const make = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    try {
      const found = await makeSchedule(await describe());
      unanswered.current = null;
      setMade(found);
      setProblem("");
      announce(whenNext(found));
    } catch (thrown) {
      if (!isPassing(thrown)) unanswered.current = null;
      setMade(null);
      setProblem(asProblem(thrown).message);
    } finally {
      setBusy(false);
      await queries.invalidateQueries({ queryKey: KEYS.schedules });
    }
  };
  const nameOfDay = (number: number): string => {
    if (every === "week") return nameOfWeekday(number, language());
    return number > SURE_DAYS ? `${number} (${word("orLastDay")})` : String(number);
  };
  return (
    <form className="new-link" onSubmit={(event) => void make(event)}>
      <p className="dim">{word("repeatNote")}</p>
      <Choice label={word("repeatEvery")} value={every} names={EVERY} nameOf={(name) => word(`every_${name}`)} onChoose={(name) => { setEvery(name); setDay(1); }} />
      {every !== "day" && <Choice label={word("repeatDay")} value={String(day)} names={Array.from({ length: daysOf(every) }, (_, place) => String(place + 1))}
        nameOf={(name) => nameOfDay(Number(name))} onChoose={(name) => setDay(Number(name))} />}
      <div className="field"><label htmlFor={timeId}>{word("repeatAt")}</label>
        <input id={timeId} type="time" required value={at} onChange={(event) => setAt(event.target.value)} /></div>
      <Choice label={word("repeatZone")} value={zone} names={listZones()} nameOf={(name) => name} onChoose={setZone} />
      <div className="choice"><button type="submit" className="primary" aria-busy={isBusy || undefined}>{word("makeSchedule")}</button></div>
      {problem && <p className="chip bad" role="alert">{problem}</p>}
      {made && <p role="status">{whenNext(made)}</p>}
    </form>
  );
}

const whenNext = (schedule: Schedule): string => `${word("nextIs")} ${minuteOfSecond(schedule.due, schedule.time_zone)} (${schedule.time_zone})`;
