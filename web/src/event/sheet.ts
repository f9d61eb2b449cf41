/** The addresses on a printed sheet: pure. */

/** An address of this server for viewers, with a slash at its end; null where the text is none. */
export function baseOf(text: string): string | null {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  try {
    const url = new URL(/^[a-z][a-z0-9+.-]*:\/\//i.test(trimmed) ? trimmed : `https://${trimmed}`);
    if (url.protocol !== "http:" && url.protocol !== "https:") return null;
    return `${url.origin}${url.pathname.endsWith("/") ? url.pathname : `${url.pathname}/`}`;
  } catch {
    return null;
  }
}

function join(base: string, path: string, access: string | null): string {
  return `${base}${path}${access ? `?${access}` : ""}`;
}

/** The viewers' page of an event. */
export function eventAddress(base: string, event: string, access: string | null): string {
  return join(base, `event/${encodeURIComponent(event)}`, access);
}

export interface StreamAddresses {
  page: string;
  /** MPEG-TS, which a group as such does not have; null where `best` is. */
  vlc: string | null;
  hls: string;
  dash: string;
}

/**
 * What the address for VLC names: the stream, or a group's best version; null where it is not known, as of a stream that is
 * not live and of which the server has seen nothing, which may be a group.
 */
export function vlcName(stream: { name: string; group: boolean; live: boolean; sound: boolean | null; picture: boolean | null }, best: string | null): string | null {
  if (stream.group) return best;
  const isSeen = stream.live || stream.sound !== null || stream.picture !== null;
  return isSeen ? stream.name : null;
}

/** Addresses of a stream, or of a group with `best` as the name of its best version. */
export function streamAddresses(base: string, name: string, access: string | null, best: string | null): StreamAddresses {
  const own = encodeURIComponent(name);
  return {
    page: join(base, `watch/${own}`, access),
    vlc: best === null ? null : join(base, `live/${encodeURIComponent(best)}.ts`, access),
    hls: join(base, `live/${own}/index.m3u8`, access),
    dash: join(base, `live/${own}/manifest.mpd`, access),
  };
}

/** What a sheet says where its links would be refused. */
export interface UnsignedLinks {
  text: string;
  /** What signs them, a command each. */
  commands: string[];
}

interface Linked {
  needs_link?: boolean | undefined;
  access: string | null;
}

function isUnsigned(one: Linked): boolean {
  return one.needs_link === true && one.access === null;
}

/** The links of the sheet that need a signature and have none, as for a crew that came by the publish key; null where there are none. */
export function unsignedLinks(base: string, event: string, crew: Linked | null, streams: readonly (Linked & { name: string })[]): UnsignedLinks | null {
  const names = streams.filter(isUnsigned).map((one) => one.name);
  const isEventUnsigned = crew !== null && isUnsigned(crew);
  if (names.length === 0 && !isEventUnsigned) return null;
  const of = [...(isEventUnsigned ? ["the event"] : []), ...names].join(", ");
  const addresses = [...(isEventUnsigned ? [eventAddress(base, event, null)] : []), ...names.map((name) => join(base, `watch/${encodeURIComponent(name)}`, null))];
  return {
    text: `The links to ${of} on this sheet are not signed, and viewers need signed ones: these are refused. The publish key, by which this page was opened, signs none. Sign them with the viewer key, and hand those on:`,
    commands: addresses.map((address) => `glassline sign ${address} --key-file viewer.key --for 36h`),
  };
}

/** Until when an address with this query is good, in ms since 1970; null where it needs none, or does not say. */
export function expiresMs(access: string | null): number | null {
  const seconds = Number(new URLSearchParams(access ?? "").get("expires") ?? "");
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : null;
}

/** The first time at which one of these addresses is no longer good; null where all of them stay good. */
export function firstExpiry(accesses: readonly (string | null)[]): number | null {
  const times = accesses.map(expiresMs).filter((time) => time !== null);
  return times.length === 0 ? null : Math.min(...times);
}

/** When an address is good until, in words; with a date and a time zone, since paper lies around. */
export function untilText(ms: number): string {
  return new Date(ms).toLocaleString([], { weekday: "long", day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short", hourCycle: "h23" });
}
