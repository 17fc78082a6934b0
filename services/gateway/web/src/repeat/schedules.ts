// Questions that are asked again by schedule: made, read, paused, deleted.
import { call, patch, path, post } from "../base/api";
import type { Schedule, ScheduleList } from "../contract/types";

export const EVERY = ["day", "week", "month"] as const;
export type Every = (typeof EVERY)[number];

export interface NewSchedule {
  ask: object;
  every: Every;
  at: string;
  time_zone: string;
  day: number;
  run_id: string;
  // The same one again makes no second schedule.
  request_id: string;
}

export const makeSchedule = (wish: NewSchedule): Promise<Schedule> => post(path("schedules"), wish);
export const readSchedules = (): Promise<ScheduleList> => call(path("schedules"));
export const pauseSchedule = (id: string, paused: boolean): Promise<Schedule> => patch(path("schedules", id), { paused });
export const deleteSchedule = (id: string): Promise<unknown> => call(path("schedules", id), { method: "DELETE" });

const MONDAY = Date.UTC(2024, 0, 1);
const DAY_MS = 86_400_000;

export const daysOf = (every: Every): number => ({ day: 0, week: 7, month: 31 })[every];
// 1 is Monday.
export const nameOfWeekday = (day: number, language: string): string =>
  new Date(MONDAY + (day - 1) * DAY_MS).toLocaleDateString(language, { weekday: "long", timeZone: "UTC" });

export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
export const listZones = (): string[] => [...new Set([ownZone(), "UTC", ...Intl.supportedValuesOf("timeZone")])];
