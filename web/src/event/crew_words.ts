/** What the operators' page of an event says in its badge and of what is watched: pure. */
import type { AlarmEvent, Alarms, EventStream } from "../event_api";
import { groupOf, ofEvent } from "./alarm_words";

/** What is known when the badge is written. */
export interface CrewKnowledge {
  streams: readonly EventStream[];
  /** Null: not known. */
  told: Alarms | null;
  /** The server's status where it does not tell of alarms. */
  status: number | null;
  /** The last question had no answer: what is known is old. */
  isOld: boolean;
  /** The event's streams with all versions that were seen. */
  names: ReadonlySet<string>;
  /** Versions that were seen of a group. */
  versions(group: string): ReadonlySet<string> | undefined;
}

export interface CrewBadge {
  words: string;
  /** Classes that the badge has beside its own. */
  className: string;
  /** Alarms that are not muted. */
  loud: number;
}

/** A server without `[watch]` has no alarms to tell of. */
const NOTHING_WATCHED = 404;

export function crewBadge(known: CrewKnowledge): CrewBadge {
  const { streams, told, status, isOld, names } = known;
  const own = told ? ofEvent(told.active, names).own : [];
  const loud = own.filter((one: AlarmEvent) => !one.muted).length;
  const muted = own.length - loud;
  const live = streams.filter((one) => one.live).length;
  const [words, kind] = ((): [string, string] => {
    if (loud > 0) return [`${loud} ${loud === 1 ? "alarm" : "alarms"}`, "alarmed"];
    if (told === null && status !== NOTHING_WATCHED) return ["Alarms unknown", "idle"];
    if (live < streams.length) return [`${live} of ${streams.length} live`, "idle"];
    return isAnyWatched(known) ? ["OK", "live"] : ["Not watched", "idle"];
  })();
  return { words: muted > 0 ? `${words} · ${muted} muted` : words, className: isOld ? `${kind} old` : kind, loud };
}

/** The event's streams of which the server does not look for alarms; null where it does not say. */
function unwatched({ streams, told, versions }: Pick<CrewKnowledge, "streams" | "told" | "versions">): EventStream[] | null {
  if (!Array.isArray(told?.watched)) return null;
  const watched = new Set(told.watched);
  // A group counts by one of its versions.
  const groups = new Set(told.watched.map(groupOf));
  return streams.filter(({ name }) => !watched.has(name) && !groups.has(name) && ![...(versions(name) ?? [])].some((one) => watched.has(one)));
}

function isAnyWatched(known: CrewKnowledge): boolean {
  if (known.told === null) return false;
  const missing = unwatched(known);
  // An earlier server does not say.
  return missing === null || missing.length < known.streams.length;
}

/** A line about streams without a watch; null where there is none to name, or the server does not say. */
export function unwatchedText(known: Pick<CrewKnowledge, "streams" | "told" | "versions">): string | null {
  const missing = unwatched(known) ?? [];
  if (missing.length === 0) return null;
  return `Not watched for alarms: ${missing.map(({ name }) => name).join(", ")}. [watch] streams in the server's configuration names what is.`;
}
