/** A time of what was recorded, as the page's address has it: `?from=T&to=T`. */
import { access } from "../api";
import { ROOT } from "../root";

export interface Replay {
  /** As the address has it: RFC 3339, seconds since 1970, or before now (`-30s`). */
  from: string;
  /** Null: whatever comes. */
  to: string | null;
}

/** What the page's query asks for; null: live. */
export function replayOf(query: URLSearchParams): Replay | null {
  const from = query.get("from");
  return from ? { from, to: query.get("to") || null } : null;
}

/** The query of a page that shows this time, or live; what else is in `search` stays as it was written. */
export function replaySearch(search: string, replay: Replay | null): string {
  const kept = search.replace(/^\?/, "").split("&").filter((pair) => pair !== "" && !/^(from|to)(=|$)/.test(pair));
  if (replay) {
    kept.push(`from=${encodeURIComponent(replay.from)}`);
    if (replay.to !== null) kept.push(`to=${encodeURIComponent(replay.to)}`);
  }
  return kept.length > 0 ? `?${kept.join("&")}` : "";
}

/** Path of the playlist of a recorded time; `search` is the query of the page that asks. */
export function replayPath(name: string, search: string, replay: Replay): string {
  const times = replaySearch("", replay).slice(1);
  const query = [access(search), times].filter(Boolean).join("&");
  return `${ROOT}live/${encodeURIComponent(name)}/index.m3u8?${query}`;
}

/** A time of the viewer's clock and zone, as `<input type="datetime-local">` has it, for an address; null where it is none. */
export function instantOf(local: string): string | null {
  const time = new Date(local);
  return local === "" || Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/** An instant as `<input type="datetime-local">` has it, in the viewer's zone, to the second. */
export function localOf(ms: number): string {
  const at = new Date(ms);
  const two = (value: number): string => String(value).padStart(2, "0");
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${date}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
