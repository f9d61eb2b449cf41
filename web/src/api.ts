/** What the server tells, as JSON. Every call answers null where the server doesn't. */
import { ROOT } from "./root";

export interface Codec {
  kind: "video" | "audio" | "other";
  /** None of a format that MPEG-TS names by its number alone. */
  name?: string;
  stream_type?: number;
  codec_string?: string | null;
  width?: number | null;
  height?: number | null;
  frame_rate?: number | null;
}

/** How the bytes are packed; what is missing is `ts`. */
export type Mux = "ts" | "flv" | "webm" | "ogg";

/** What keeps a viewer from being live. */
export type Why = "fine" | "receiver_window" | "network" | "paced" | "us";

/** Viewers in ranges of how far they are behind live; one range more than there are edges. */
export interface Behind {
  edges_ms: number[];
  viewers: number[];
}

/** One version of a capture. */
export interface Rendition {
  name: string;
  live: boolean;
  width: number | null;
  height: number | null;
  frame_rate: number | null;
  bitrate_bps: number;
}

export interface StreamInfo {
  name: string;
  /** Changes when the picture at `thumbnailPath` does; null or absent where there is none. */
  thumbnail?: string | null;
  /** What all versions of one capture are called. */
  group?: string | null;
  /** All versions of the same capture, best first; none where there is one only. */
  renditions?: Rendition[];
  /** The query that lets a viewer in, of this stream and of all its versions: told to operators, where one is needed. */
  access?: string | null;
  group_access?: string | null;
  mux?: Mux;
  live: boolean;
  bitrate_bps: number;
  viewers: number;
  codecs: Codec[];
  /** Tracks that LL-HLS and LL-DASH are without. */
  left_out?: { pid: number; codec: string; why: string }[];
  uptime_s: number;
  newest_byte_age_ms: number | null;
  bytes_in: number;
  continuity_errors: number;
  moved_forward: number;
  /** What stands in for the publisher; null where nothing is configured for that. */
  slate?: { on_air: boolean; times: number; seconds: number } | null;
  key_frame_interval_s: number | null;
  join?: { at: "key frame" | "recovery point"; settling_frames: number; settling_ms: number | null } | null;
  bytes_out?: number;
  retransmitted_segments?: number;
  pacing_bps?: number | null;
  why?: Partial<Record<Why, number>>;
  behind?: Behind;
  /** Where it is pulled from, its peers and its outputs: told to operators. */
  source?: Source | null;
  peers?: Peer[];
  outputs?: Output[];
}

/** Where a pulled stream comes from. */
export interface Source {
  url: string;
  state: string;
  error: string | null;
  retry_in_ms: number | null;
  reconnects: number;
  failures: number;
  datagrams: number | null;
  rtp: { received: number; lost: number } | null;
}

/** A publisher or viewer by another protocol than HTTP, or a service that the stream is published to ("forward"). */
export interface Peer {
  role: string;
  protocol: string;
  address?: string | null;
  /** Of a forward: where it goes, and how it is. */
  target?: string;
  state?: string;
  reason?: string | null;
  retry_in_s?: number | null;
  seconds: number;
  bytes: number;
  figures: { name: string; words: string; value: number }[];
}

/** Where a stream is sent in datagrams. */
export interface Output {
  url: string;
  sending: boolean;
  error: string | null;
  datagrams: number;
  bytes: number;
  errors: number;
  moved_forward: number;
}

/** A viewer, as the server last saw it. */
export interface Client {
  address: string;
  stream: string;
  joined_s: number;
  bytes_sent: number;
  rate_bps: number | null;
  behind_ms: number | null;
  behind_bytes: number;
  moved_forward: number;
  why: Why;
  pacing_bps: number | null;
  seen_ms: number;
  tcp: {
    rtt_ms: number;
    rttvar_ms: number;
    cwnd: number;
    snd_mss: number;
    unacked: number;
    retransmitted_segments: number;
    retransmitted_bytes: number | null;
    notsent_bytes: number | null;
    delivery_bps: number | null;
    pacing_bps: number | null;
  };
}

/** The viewers of a stream: all of them in numbers, those furthest behind one by one. */
export interface Clients {
  viewers: number;
  rate_bps: number;
  why: Record<Why, number>;
  behind: Behind;
  clients: Client[];
}

/** How a stream was: arrays of one length, a number a step; `first` is the number of the first step. */
export interface Curves {
  step_s: number;
  first: number;
  begins_utc_us: number;
  in_bps: number[];
  out_bps: number[];
  viewers: number[];
  slow: number[];
  moved_forward: number[];
  retransmitted_segments: number[];
  behind_p50_ms: (number | null)[];
  behind_p95_ms: (number | null)[];
}

export interface ServerInfo {
  version: string;
  uptime_s: number;
  contact: string | null;
  now_utc_us: number;
  /** Where publishers connect to by other protocols than HTTP. */
  doors?: Door[];
}

export interface Door {
  protocol: string;
  port: number;
}

export interface Overview {
  server: ServerInfo;
  streams: StreamInfo[];
}

/** Requests for objects in some time. Percentiles are of how long those waited for the first byte that were not for what was not made yet. */
export interface ObjectCounts {
  requests: number;
  awaited: number;
  by_source: Record<string, number>;
  by_kind: Record<string, number>;
  awaited_by_kind: Record<string, number>;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
  awaited_p50_ms: number | null;
  awaited_p95_ms: number | null;
}

/** The objects of one name: the last ten minutes. */
export interface NamedObjects extends ObjectCounts {
  name: string;
  last_minute: ObjectCounts & { seconds: number; requests_per_s: number };
  windows: {
    step_s: number;
    begins_utc_us: number;
    requests: number[];
    awaited: number[];
    p50_ms: (number | null)[];
    p95_ms: (number | null)[];
    p99_ms: (number | null)[];
    awaited_p50_ms: (number | null)[];
  };
  /** Requests in each bucket; one more than there are edges. */
  distribution: number[];
  awaited_distribution: number[];
}

export interface Objects {
  /** Names that there are, listed or not. */
  names: number;
  edges_ms: number[];
  objects: NamedObjects[];
}

export const TIMEOUT_MS = 4000;

/** The header that shows a key; none without one. */
export function authorization(key: string): Record<string, string> {
  return key === "" ? {} : { authorization: `Bearer ${key}` };
}

async function json(path: string, key = ""): Promise<unknown> {
  try {
    const response = await fetch(path, { cache: "no-store", headers: authorization(key), signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

export async function overview(key = ""): Promise<Overview | null> {
  const answer = (await json(`${ROOT}api/streams`, key)) as Overview | null;
  return answer && Array.isArray(answer.streams) ? answer : null;
}

/** How viewers reach the crew. Told to everybody, where the list of streams is for the crew alone too. */
export async function crewContact(): Promise<string | null> {
  const answer = (await json(`${ROOT}api/contact`)) as { contact?: unknown } | null;
  return typeof answer?.contact === "string" ? answer.contact : null;
}

/** Path of what the server tells about a stream; `search` is the query of the page that asks, whose token lets it know. */
export function infoPath(name: string, search: string): string {
  const query = access(search);
  return `${ROOT}api/streams/${encodeURIComponent(name)}${query && `?${query}`}`;
}

/** All versions of one capture, by the name that they share. */
export interface LadderInfo {
  group: string;
  renditions: Rendition[];
}

/** What the server knows by this name: a stream, or several versions of one capture. */
export async function streamInfo(name: string, search: string = location.search): Promise<StreamInfo | LadderInfo | null> {
  return (await json(infoPath(name, search))) as StreamInfo | LadderInfo | null;
}

export function isLadder(found: StreamInfo | LadderInfo | null): found is LadderInfo {
  return found !== null && !("name" in found);
}

/** Path of how a stream was: the newest `points` steps of `step` seconds. */
export function historyPath(name: string, search: string, step: 1 | 10, points: number): string {
  const query = access(search);
  return `${ROOT}api/streams/${encodeURIComponent(name)}/history?step=${step}&points=${points}${query && `&${query}`}`;
}

export async function history(name: string, step: 1 | 10, points: number): Promise<Curves | null> {
  const answer = (await json(historyPath(name, location.search, step, points))) as Curves | null;
  return answer && Array.isArray(answer.in_bps) ? answer : null;
}

/** A stream's viewers; the status where the server does not tell, null where it does not answer. */
export async function clients(name: string, key: string): Promise<Clients | number | null> {
  try {
    const path = `${ROOT}api/clients?stream=${encodeURIComponent(name)}`;
    const response = await fetch(path, { cache: "no-store", headers: authorization(key), signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? ((await response.json()) as Clients) : response.status;
  } catch {
    return null;
  }
}

/** What the server tells of objects, or of those of one name; the status where it does not tell, null where it does not answer. */
export async function objects(name: string | null): Promise<Objects | number | null> {
  try {
    const path = `${ROOT}api/objects${name === null ? "" : `?name=${encodeURIComponent(name)}`}`;
    const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? ((await response.json()) as Objects) : response.status;
  } catch {
    return null;
  }
}

/** What an encoder of this server says of a stream that it makes, for operators. */
export interface EncoderStatus {
  /** The stream's. */
  name: string;
  state: string;
  error: string | null;
  running: { pictures: number; dropped: number } | null;
}

export async function encoders(): Promise<EncoderStatus[]> {
  const answer = (await json(`${ROOT}api/encoders`)) as { encoders?: EncoderStatus[] } | null;
  return Array.isArray(answer?.encoders) ? answer.encoders : [];
}

export const TIME_PATH = `${ROOT}api/time`;

/** The server's wall clock, UTC in µs. */
export async function serverTime(): Promise<number | null> {
  const answer = (await json(TIME_PATH)) as { utc_us?: unknown } | null;
  return typeof answer?.utc_us === "number" ? answer.utc_us : null;
}

/** What of a page's query lets a viewer in, as a query of its own: where viewers need a signed address. */
export function access(search: string): string {
  const given = new URLSearchParams(search);
  const kept = new URLSearchParams();
  for (const name of ["expires", "token"]) {
    const value = given.get(name);
    if (value !== null) kept.set(name, value);
  }
  return kept.toString();
}

/** Path of a stream's bytes; `search` is the query of the page that asks. */
export function livePath(name: string, search: string, mux: Mux = "ts"): string {
  const query = access(search);
  return `${ROOT}live/${encodeURIComponent(name)}.${mux}${query && `?${query}`}`;
}

/** Path of what the server and its viewers say of pictures' stages; `search` is the query of the page that asks. */
export function stagesPath(name: string, search: string, afterUs: number | null): string {
  const query = [...(afterUs === null ? [] : [`after=${afterUs}`]), ...[access(search)].filter(Boolean)].join("&");
  return `${ROOT}live/${encodeURIComponent(name)}/stages.json${query && `?${query}`}`;
}

/** Path at which a viewer tells its own figures. */
export function reportPath(name: string, search: string): string {
  const query = access(search);
  return `${ROOT}live/${encodeURIComponent(name)}/stages${query && `?${query}`}`;
}

/** What the server says of when pictures passed it, of those captured after `afterUs`; the status where it does not tell, null where it does not answer. */
export async function relayStages(name: string, afterUs: number | null): Promise<unknown> {
  try {
    const response = await fetch(stagesPath(name, location.search, afterUs), { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? await response.json() : response.status;
  } catch {
    return null;
  }
}

/** Tells the server figures; its status, null where it does not answer. */
export async function reportStages(name: string, stages: Record<string, number[]>): Promise<number | null> {
  try {
    const response = await fetch(reportPath(name, location.search), {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ stages }), signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return response.status;
  } catch {
    return null;
  }
}

/** Percentiles of one stage in a step of time. */
export interface StageStep {
  p50_us: number;
  p99_us: number;
}

/** How long stages took in the last ten minutes, by what the server saw and by what viewers told. Steps of nothing are absent. */
export interface Latency {
  step_s: number;
  now_us: number;
  relay: { t_us: number; stages: Record<string, StageStep> }[];
  viewers: { t_us: number; reports: number; stages: Record<string, StageStep> }[];
}

export async function latency(name: string): Promise<Latency | null> {
  const query = access(location.search);
  const answer = (await json(`${ROOT}api/streams/${encodeURIComponent(name)}/latency${query && `?${query}`}`)) as Latency | null;
  return answer && answer.step_s > 0 && Array.isArray(answer.relay) && Array.isArray(answer.viewers) ? answer : null;
}

/** Path of a stream's playlist; `search` is the query of the page that asks. */
export function playlistPath(name: string, search: string, way: "hls" | "dash"): string {
  const query = access(search);
  return `${ROOT}live/${encodeURIComponent(name)}/${way === "hls" ? "index.m3u8" : "manifest.mpd"}${query && `?${query}`}`;
}

/** What is recorded of a stream. */
export interface RecordingInfo {
  name: string;
  session: string;
  /** RFC 3339; null before anything is there. */
  from: string | null;
  to: string | null;
  bytes: number;
  /** `recording`, `complete`, `recovered` or another. */
  state: string;
  /** Address of its picture; null where there is none. An earlier server does not say. */
  poster?: string | null;
  /** Where clips of the stream are ordered, for those that may; null for others. An earlier server does not say. */
  clip?: string | null;
}

/** Path of a recording's picture; `search` is the query of the page that asks. `version` keeps a browser from showing the one that it has. */
export function posterPath(one: Pick<RecordingInfo, "name" | "session">, search: string, version: string | null = null): string {
  const query = [access(search), version === null ? "" : `v=${encodeURIComponent(version)}`].filter(Boolean).join("&");
  return `${ROOT}live/${encodeURIComponent(one.name)}/archive/${encodeURIComponent(one.session)}/poster.jpg${query && `?${query}`}`;
}

/** What is recorded of all streams; null where the server does not tell. `key` is an operator's. */
export async function recordings(key = ""): Promise<RecordingInfo[] | null> {
  const answer = await json(`${ROOT}api/recordings`, key);
  return Array.isArray(answer) ? (answer as RecordingInfo[]) : null;
}

/** How people call a mux; null for what the page can play. */
export function carriedMux(stream: StreamInfo): string | null {
  switch (stream.mux ?? "ts") {
    case "ts":
      return null;
    case "flv":
      return "FLV";
    case "webm":
      return "WebM";
    case "ogg":
      return "Ogg";
    default:
      return String(stream.mux);
  }
}

/** Path of a stream's figures. */
export function figuresPath(name: string): string {
  return `${ROOT}stream/${encodeURIComponent(name)}`;
}

/** Path of a stream's page; `access` is the query that lets the viewer in, where the server has told one. */
export function watchPath(name: string, access: string | null = null): string {
  return `${ROOT}watch/${encodeURIComponent(name)}${access ? `?${access}` : ""}`;
}
