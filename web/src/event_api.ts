/** What the server tells of events and alarms, and what operators ask it to do. */
import { authorization, TIMEOUT_MS } from "./api";
import { ROOT } from "./root";

/** A stream of an event, or all versions of one capture (a group). */
export interface EventStream {
  name: string;
  group: boolean;
  /** False: this page may not watch it, a signed link is needed. */
  known: boolean;
  live: boolean;
  /** Null: not known yet. */
  sound: boolean | null;
  picture: boolean | null;
  /** Viewers need a signed link; an earlier server does not say. */
  needs_link?: boolean | undefined;
  /** The query that the stream's own addresses need, as far as this page may have it. */
  access: string | null;
}

/** What operators are told beside it. */
export interface EventCrew {
  /** Viewers need a signed link to the event; an earlier server does not say. */
  needs_link?: boolean | undefined;
  /** The query that such a link has; null too for a crew that came by the publish key. */
  access: string | null;
  /** Addresses of this server for viewers, best first; may be empty. */
  public: string[];
}

export interface EventInfo {
  name: string;
  title: string | null;
  contact: string | null;
  chat: string | null;
  /** What is next on stage. */
  next: string | null;
  /** The stream that is heard at first. */
  audio: string | null;
  streams: EventStream[];
  crew: EventCrew | null;
}

/** An alarm that has begun or is over. */
export interface AlarmEvent {
  alarm: string;
  state: "begun" | "over";
  stream: string;
  /** RFC 3339. */
  at_utc: string;
  value: number | null;
  limit: number;
  unit?: string | null;
  /** What the picture of that moment is called. */
  picture?: string | null;
  muted?: boolean;
}

/** An alarm of which neither log nor webhook tells until then; `alarm` is `*` for all of the stream. */
export interface Mute {
  stream: string;
  alarm: string;
  until_utc: string;
}

export interface Alarms {
  active: AlarmEvent[];
  /** Newest first. */
  recent: AlarmEvent[];
  muted: Mute[];
  /** Names of the streams that are watched; an earlier server does not say. */
  watched?: string[] | undefined;
}

/** What of a page's query the server wants to see again: a signed address's parts, or a key. */
export function passedOn(search: string): string {
  const given = new URLSearchParams(search);
  const kept = new URLSearchParams();
  for (const name of ["expires", "token", "key"]) {
    const value = given.get(name);
    if (value !== null) kept.set(name, value);
  }
  return kept.toString();
}

function withQuery(path: string, query: string | null): string {
  return query ? `${path}?${query}` : path;
}

/** Path of the viewers' page of an event; `access` is the query that it needs. */
export function eventPath(name: string, access: string | null = null): string {
  return withQuery(`${ROOT}event/${encodeURIComponent(name)}`, access);
}

/** Path of the operators' page of an event. */
export function crewPath(name: string, search = ""): string {
  return withQuery(`${ROOT}crew/${encodeURIComponent(name)}`, passedOn(search));
}

/** Path of the sheet to print. */
export function sheetPath(name: string, search = ""): string {
  return withQuery(`${ROOT}crew/${encodeURIComponent(name)}`, ["sheet", passedOn(search)].filter(Boolean).join("&"));
}

/** Path of a stream's newest picture. `version` keeps a browser from showing an older one; `access` is the query that it needs. */
export function thumbnailPath(name: string, version: string, access: string | null = null): string {
  return `${ROOT}api/streams/${encodeURIComponent(name)}/thumbnail?v=${encodeURIComponent(version)}${access ? `&${access}` : ""}`;
}

/** Path of the picture of an alarm's moment. A picture's request has no header for a key. */
export function alarmPicturePath(id: string, key: string): string {
  return withQuery(`${ROOT}api/alarms/pictures/${encodeURIComponent(id)}`, keyQuery(key));
}

/** A key as a query; null without one. */
export function keyQuery(key: string): string | null {
  return key === "" ? null : new URLSearchParams({ key }).toString();
}

/** Path that mutes an alarm for `time` (`10m`; `0s` ends it). */
export function mutePath(stream: string, alarm: string, time: string): string {
  return `${ROOT}api/alarms/mute?${new URLSearchParams({ stream, alarm, for: time }).toString()}`;
}

/** Path that asks a stream's encoder for a key frame. */
export function keyFramePath(name: string): string {
  return `${ROOT}api/streams/${encodeURIComponent(name)}/keyframe`;
}

/** An answer, or the status where the server does not tell; null where it does not answer. */
export type Told<T> = T | number | null;

export async function told<T>(path: string, isRight: (answer: T) => boolean, key = ""): Promise<Told<T>> {
  try {
    const response = await fetch(path, { cache: "no-store", headers: authorization(key), signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!response.ok) return response.status;
    const answer = (await response.json()) as T;
    return isRight(answer) ? answer : null;
  } catch {
    return null;
  }
}

/** Path of what the server tells of an event; `search` is the query of the page that asks. */
export function eventInfoPath(name: string, search: string): string {
  return withQuery(`${ROOT}api/events/${encodeURIComponent(name)}`, passedOn(search));
}

export function eventInfo(name: string, search: string, key = ""): Promise<Told<EventInfo>> {
  return told<EventInfo>(eventInfoPath(name, search), (answer) => Array.isArray(answer?.streams), key);
}

/** The events of this server, for operators. */
export function events(): Promise<Told<{ events: { name: string; title: string | null }[] }>> {
  return told(`${ROOT}api/events`, (answer) => Array.isArray(answer?.events));
}

export function alarms(key = ""): Promise<Told<Alarms>> {
  return told<Alarms>(`${ROOT}api/alarms`, (answer) => Array.isArray(answer?.active) && Array.isArray(answer.recent), key);
}

/** Asks the server to do something: its status, and the sentence of its problem (RFC 9457). Null where it does not answer. */
export async function post(path: string, key: string): Promise<{ status: number; detail: string | null } | null> {
  try {
    const response = await fetch(path, { method: "POST", headers: authorization(key), signal: AbortSignal.timeout(TIMEOUT_MS) });
    const problem = response.ok ? null : ((await response.json().catch(() => null)) as { detail?: unknown } | null);
    return { status: response.status, detail: typeof problem?.detail === "string" ? problem.detail : null };
  } catch {
    return null;
  }
}
