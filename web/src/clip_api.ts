/** Clips of recordings, which operators have made. */
import { authorization, TIMEOUT_MS } from "./api";
import { keyQuery } from "./event_api";
import { ROOT } from "./root";

/** A clip that is there. */
export interface Clip {
  bytes: number;
  /** RFC 3339. */
  from: string;
  seconds: number;
  /** Times that it lacks. */
  missing: unknown[];
  lost_objects: number;
  /** Address of its picture; null where there is none. */
  poster: string | null;
}

/** What became of an order. */
export type ClipState = { state: "making" } | { state: "done"; clip: Clip; file: string; poster: string | null } | { state: "failed"; words: string };

/** Which time: up to now, or up to a recorded moment in ms of UTC. */
export interface ClipTime {
  seconds: number;
  endMs: number | null;
}

/** Path that orders a clip. */
export function clipPath(name: string, time: ClipTime): string {
  const { seconds, endMs } = time;
  // The server counts in whole seconds: the moment lies in the last of them.
  const end = endMs === null ? 0 : Math.ceil(endMs / 1000);
  const query: Record<string, string> = endMs === null ? { last: `${seconds}s` } : { from: String(end - seconds), to: String(end) };
  return `${ROOT}api/recordings/${encodeURIComponent(name)}/clip?${new URLSearchParams(query).toString()}`;
}

/** An address that the server told, as it is from here: it may stand behind a proxy that puts it into a folder. */
export function fromHere(told: string): string {
  const at = told.search(/\/api\//);
  return at < 0 ? told : ROOT + told.slice(at + 1);
}

/** The same for what a page links to: such a request has no header for a key. */
function linked(told: string, key: string): string {
  const query = keyQuery(key);
  return fromHere(told) + (query === null ? "" : `?${query}`);
}

/** What an answer that is no success says. */
export function refusedText(status: number, detail: string | null): string {
  switch (status) {
    case 401:
    case 403:
      return `Refused. ${detail ?? "Clips are made by operators alone."}`;
    case 404:
      return detail ?? "Nothing of this stream is recorded in that time.";
    default:
      return detail ?? `The server answered ${status}.`;
  }
}

const NO_ANSWER: ClipState = { state: "failed", words: "The server does not answer." };

async function ask(path: string, method: "GET" | "POST", key: string): Promise<{ status: number; answer: Record<string, unknown> } | null> {
  try {
    const response = await fetch(path, { method, cache: "no-store", headers: authorization(key), signal: AbortSignal.timeout(TIMEOUT_MS) });
    const answer = (await response.json().catch(() => null)) as Record<string, unknown> | null;
    return { status: response.status, answer: answer ?? {} };
  } catch {
    return null;
  }
}

function failed(status: number, answer: Record<string, unknown>): ClipState {
  const { detail } = answer;
  return { state: "failed", words: refusedText(status, typeof detail === "string" ? detail : null) };
}

/** Has a clip made: where it is told what became of it, and where the file will be; or why none is made. */
export async function orderClip(name: string, time: ClipTime, key: string): Promise<{ status: string; file: string } | ClipState> {
  const asked = await ask(clipPath(name, time), "POST", key);
  if (asked === null) return NO_ANSWER;
  const { status, file } = asked.answer;
  if (asked.status !== 202 || typeof status !== "string" || typeof file !== "string") return failed(asked.status, asked.answer);
  return { status, file };
}

/** What became of it by now; null where the server does not answer at the moment. */
export async function clipState(ordered: { status: string; file: string }, key: string): Promise<ClipState | null> {
  const asked = await ask(fromHere(ordered.status), "GET", key);
  if (asked === null) return null;
  if (asked.status === 202) return { state: "making" };
  const clip = asked.answer["clip"] as Clip | undefined;
  if (asked.status !== 200 || !clip) return failed(asked.status, asked.answer);
  const poster = typeof clip.poster === "string" ? linked(clip.poster, key) : null;
  return { state: "done", clip, file: linked(ordered.file, key), poster };
}
