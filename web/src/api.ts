/** What the server tells, as JSON. Every call answers null where the server doesn't. */
export interface Codec {
  kind: "video" | "audio";
  name: string;
  codec_string?: string | null;
  width?: number | null;
  height?: number | null;
  frame_rate?: number | null;
}

export interface StreamInfo {
  name: string;
  live: boolean;
  bitrate_bps: number;
  viewers: number;
  codecs: Codec[];
  uptime_s: number;
  newest_byte_age_ms: number | null;
  bytes_in: number;
  continuity_errors: number;
  moved_forward: number;
  key_frame_interval_s: number | null;
}

export interface ServerInfo {
  version: string;
  uptime_s: number;
  contact: string | null;
  now_utc_us: number;
}

export interface Overview {
  server: ServerInfo;
  streams: StreamInfo[];
}

const TIMEOUT_MS = 4000;

async function json(path: string): Promise<unknown> {
  try {
    const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

export async function overview(): Promise<Overview | null> {
  const answer = (await json("/api/streams")) as Overview | null;
  return answer && Array.isArray(answer.streams) ? answer : null;
}

export async function streamInfo(name: string): Promise<StreamInfo | null> {
  return (await json(`/api/streams/${encodeURIComponent(name)}`)) as StreamInfo | null;
}

export const TIME_PATH = "/api/time";

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
export function livePath(name: string, search: string): string {
  const query = access(search);
  return `/live/${encodeURIComponent(name)}.ts${query && `?${query}`}`;
}

/** Path of a stream's page. */
export function watchPath(name: string): string {
  return `/watch/${encodeURIComponent(name)}`;
}
