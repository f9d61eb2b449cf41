/** Alarms in words, for people at a phone. */
import type { AlarmEvent, Mute } from "../event_api";

interface Words {
  title: string;
  /** What was measured and what the limit is; `value` is null where there was nothing to measure. */
  text(value: string | null, limit: string): string;
}

/** By docs/alarms.md. */
const WORDS: Record<string, Words> = {
  silence: {
    title: "Silence",
    text: (value, limit) => (value === null ? `no sound at all; limit ${limit} dBFS` : `${value} dBFS at the loudest; limit ${limit} dBFS`),
  },
  clipping: { title: "Clipping", text: (value, limit) => `${value ?? "?"} % of the samples at full scale; limit ${limit} %` },
  phase: { title: "Out of phase", text: (value, limit) => `correlation of left and right ${value ?? "?"}; limit ${limit}` },
  loudness: { title: "Loudness", text: (value, limit) => `${value ?? "?"} LU from the target; limit ${limit} LU` },
  black: { title: "Black picture", text: (value, limit) => `the picture is darker than ${value ?? "?"} % of the range; limit ${limit} %` },
  frozen: { title: "Frozen picture", text: (value, limit) => `pictures differ by ${value ?? "?"} levels of 255; limit ${limit}` },
  blurred: { title: "Blurred picture", text: (value, limit) => `sharpness ${value ?? "?"} % of what is usual; limit ${limit} %` },
  flicker: { title: "Flicker", text: (value, limit) => `${value ?? "?"} flashes a second; limit ${limit}` },
  av_sync: { title: "Sound and picture apart", text: (value, limit) => `${value ?? "?"} ms from their usual distance; limit ${limit} ms` },
  captions: {
    title: "Captions missing",
    text: (value, limit) => (value === null ? `none; limit ${limit} s` : `none for ${value} s; limit ${limit} s`),
  },
  bitrate: { title: "Bit rate", text: (value, limit) => `${value ?? "?"} times off the usual rate; limit ${limit} times` },
  discontinuity: { title: "Errors in the stream", text: (value, limit) => `${value ?? "?"} a second; limit ${limit}` },
  absent: {
    title: "Stream is missing",
    text: (value, limit) => (value === null ? "there is no publisher" : `nothing came for ${value} s; limit ${limit} s`),
  },
};

function number(value: number): string {
  return String(Number(value.toFixed(Math.abs(value) < 1 ? 3 : 1)));
}

export function alarmTitle(alarm: string): string {
  return WORDS[alarm]?.title ?? alarm;
}

/** What was measured, and the limit. */
export function alarmText({ alarm, value, limit, unit }: AlarmEvent): string {
  const [measured, most] = [value === null ? null : number(value), number(limit)];
  const known = WORDS[alarm];
  if (known) return known.text(measured, most);
  return [measured === null ? "" : `${measured} ${unit ?? ""}`.trim(), `limit ${most} ${unit ?? ""}`.trim()].filter(Boolean).join("; ");
}

/** What names an alarm of a stream. */
export function alarmKey({ stream, alarm }: { stream: string; alarm: string }): string {
  return `${stream}/${alarm}`;
}

/** The entry that mutes an alarm, if any: its own, or that of all alarms of its stream. */
export function muteOf(event: { stream: string; alarm: string }, muted: readonly Mute[]): Mute | null {
  const own = muted.find((one) => one.stream === event.stream && one.alarm === event.alarm);
  return own ?? muted.find((one) => one.stream === event.stream && one.alarm === "*") ?? null;
}

/** What the page's title begins with. */
export function titleOf(title: string, alarms: number): string {
  return alarms > 0 ? `(${alarms}) ${title}` : title;
}

/** The capture of which a stream is a version by its name, as `[encode.NAME] renditions` names versions; null where it is none. */
export function groupOf(stream: string): string | null {
  return /^(.+)-\d+p\d+(-\d+(\.\d+)?[kM])?$/.exec(stream)?.[1] ?? null;
}

/** The alarms of an event's streams and of their versions, seen or not, and how many there are elsewhere. */
export function ofEvent<T extends { stream: string }>(alarms: readonly T[], names: ReadonlySet<string>): { own: T[]; elsewhere: number } {
  const isOwn = (stream: string): boolean => {
    const group = groupOf(stream);
    return names.has(stream) || (group !== null && names.has(group));
  };
  const own = alarms.filter((one) => isOwn(one.stream));
  return { own, elsewhere: alarms.length - own.length };
}

/** What came of asking for a key frame. */
export function keyFrameText(name: string, answer: { status: number; detail: string | null } | null): string {
  if (answer === null) return `${name}: the server does not answer. The key frame was not asked for.`;
  switch (answer.status) {
    case 204:
      return `${name}: the encoder was asked for a key frame.`;
    case 401:
    case 403:
      return `${name}: refused. ${answer.detail ?? "Key frames are asked for by operators alone."}`;
    case 404:
      return `${name}: there is no stream of this name now.`;
    case 409:
      return `${name}: not encoded here. ${answer.detail ?? "This server only passes the stream on: ask its own encoder."}`;
    default:
      return `${name}: no key frame was asked for. ${answer.detail ?? `The server answered ${answer.status}.`}`;
  }
}

/** What came of muting an alarm, or of ending that. */
export function muteText(event: { stream: string; alarm: string }, minutes: number, answer: { status: number; detail: string | null } | null): string {
  const what = `${event.alarm === "*" ? "All alarms" : alarmTitle(event.alarm)} of ${event.stream}`;
  if (answer === null) return `${what}: the server does not answer. Nothing was changed.`;
  if (answer.status === 204 || answer.status === 200) return minutes > 0 ? `${what}: muted for ${minutes} minutes.` : `${what}: no longer muted.`;
  return `${what}: not changed. ${answer.detail ?? `The server answered ${answer.status}.`}`;
}

/** Viewers that are behind, of all; from 200 ms on a viewer counts as behind, as in `BehindBars`. */
export function behindText(behind: { edges_ms: number[]; viewers: number[] } | undefined): string {
  if (!behind) return "–";
  const all = behind.viewers.reduce((sum, count) => sum + count, 0);
  const slow = behind.viewers.reduce((sum, count, index) => sum + ((index === 0 ? 0 : behind.edges_ms[index - 1]!) >= 200 ? count : 0), 0);
  return all === 0 ? "–" : slow === 0 ? "none" : `${slow} of ${all}`;
}

/** A time of day on this machine's clock. */
export function timeOfDay(utc: string): string {
  const time = new Date(utc);
  return Number.isNaN(time.getTime()) ? utc : time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}
