// The questions that are asked by schedule, each to open, to pause and to delete.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { asProblem } from "../base/api";
import { announce } from "../base/announce";
import { minuteOfSecond } from "../base/format";
import { KEYS } from "../base/queries";
import { language, word } from "../base/words";
import type { Schedule } from "../contract/types";
import { Confirm } from "../page/confirm";
import { usePage } from "../page/context";
import { deleteSchedule, nameOfWeekday, pauseSchedule, readSchedules } from "./schedules";

export function ScheduleEntries() {
  const queries = useQueryClient();
  const title = useRef<HTMLHeadingElement>(null);
  const [problem, setProblem] = useState("");
  const list = useQuery({ queryKey: KEYS.schedules, queryFn: readSchedules });
  const schedules = list.data?.schedules ?? [];
  // Returns whether it was done.
  const act = async (work: () => Promise<unknown>): Promise<boolean> => {
    const isDone = await work().then(() => true, (thrown: unknown) => {
      setProblem(asProblem(thrown).message);
      return false;
    });
    if (isDone) setProblem("");
    await queries.invalidateQueries({ queryKey: KEYS.schedules });
    return isDone;
  };
  const remove = async (schedule: Schedule): Promise<void> => {
    // What was refused is still there, and its button has the focus.
    if (!await act(() => deleteSchedule(schedule.id))) return;
    announce(word("scheduleGone"));
    // What has the focus goes with its schedule.
    title.current?.focus();
  };
  const failed = problem || (list.error ? asProblem(list.error).message : "");
  return (
    <section className="links" aria-busy={list.isFetching || undefined}>
      <h3 ref={title} tabIndex={-1}>{word("schedules")}</h3>
      {failed && <p className="chip bad" role="alert">{failed}</p>}
      {list.isSuccess && !schedules.length && <p className="dim">{word("noSchedules")}</p>}
      <ul>{schedules.map((schedule) => (
        <Entry key={schedule.id} schedule={schedule} onPause={() => void act(() => pauseSchedule(schedule.id, !schedule.paused))} onRemove={() => void remove(schedule)} />
      ))}</ul>
    </section>
  );
}

function Entry({ schedule, onPause, onRemove }: { schedule: Schedule; onPause: () => void; onRemove: () => void }) {
  const { layout, session } = usePage();
  const { every, day, at, time_zone: zone, paused, question } = schedule;
  const on = every === "week" ? nameOfWeekday(day, language()) : day || "";
  const when = [word(`every_${every}`), on, at, zone].filter(Boolean).join(" ");
  const next = paused ? word("paused") : `${word("nextTime")} ${minuteOfSecond(schedule.due, zone)}`;
  const open = (): void => {
    layout.open("");
    void session.open(schedule.conversation_id);
  };
  return (
    <li data-schedule={schedule.id}>
      <div>
        {schedule.runs.length > 0 ? <button type="button" className="quiet open" title={question} onClick={open}><strong>{question}</strong></button> : <strong title={question}>{question}</strong>}
        <div className="dim">{`${when} · ${next}`}</div>
        {schedule.problem && <div className="chip bad">{`${word("notAsked")} ${schedule.problem}`}</div>}
      </div>
      <button type="button" className="quiet" aria-label={`${word(paused ? "resume" : "pause")}: ${question}`} onClick={onPause}>{word(paused ? "resume" : "pause")}</button>
      <Confirm question={word("confirmSchedule")} about={question} action={word("remove")} onConfirm={onRemove}>
        <button type="button" className="quiet" aria-label={`${word("remove")}: ${question}`}>{word("remove")}</button>
      </Confirm>
    </li>
  );
}
