/**
 * Packet flight: how bursty a stream arrives at this browser. The words, axes and rules are those of
 * `glassline probe --flight`; what is looked at are the reads of a fetch, and these join what came close together.
 */
import { bits, bytes, seconds, things } from "./units";

/** `bytes` came at `ms`. */
export interface Arrival {
  ms: number;
  bytes: number;
}

export interface Distribution {
  p50: number;
  p99: number;
  max: number;
}

export interface Bin {
  from: number;
  to: number;
  /** The share of all that lies in this bin. */
  share: number;
}

export interface Summary {
  arrivals: number;
  bytes: number;
  durationMs: number;
  rateBps: number | null;
  /** The rate in windows of 1, 10 and 100 ms that lie one behind the other, empty ones included; bits a second. */
  windows: { ms: number; rate: Distribution }[];
  burstBytes: Distribution | null;
  gapMs: Distribution | null;
  /** What would have to wait before lines of fixed rates above the mean one. */
  lines: { bps: number; queueBytes: number; delayMs: number }[];
  /** The share of all bytes in bursts of each size, and of the quiet time in gaps of each length (ms). */
  burstBins: Bin[];
  gapBins: Bin[];
  /** Bytes in each of the 500 ms around the fullest one. */
  detail: number[];
  verdict: string;
}

/** TCP payload of a full packet on Ethernet. */
const PACKET_BYTES = 1448;
/** Up to ten packets every line takes at once (RFC 6928). */
const SMOOTH_BYTES = 10 * PACKET_BYTES;
/** A line that is about twice as fast as the stream is what the verdict is about. */
const HEADROOM = 2;
const LINES_BPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000].map((mega) => mega * 1e6);
const WINDOWS_MS = [1, 10, 100];
const DETAIL_MS = 500;

const edges = (lowest: number, bins: number): number[] =>
  Array.from({ length: bins + 1 }, (_, i) => lowest * 10 ** (i / 10));
/** 100 B to 10 MB and 10 µs to 10 s, ten bins to a power of ten; what lies beyond counts in the outermost. */
export const BURST_EDGES_BYTES = edges(100, 50);
export const GAP_EDGES_MS = edges(0.01, 60);

/** What `arrivals`, the earliest first, were like. Reads less than `burstGapMs` apart are one burst. */
export function summarize(arrivals: readonly Arrival[], burstGapMs: number): Summary {
  const first = arrivals[0]?.ms ?? 0;
  const durationMs = (arrivals[arrivals.length - 1]?.ms ?? 0) - first;
  const total = arrivals.reduce((sum, arrival) => sum + arrival.bytes, 0);
  const rateBps = durationMs > 0 ? (total * 8000) / durationMs : null;
  const { bursts, gaps } = burstsOf(arrivals, burstGapMs);
  const lines = rateBps === null ? [] : LINES_BPS.filter((bps) => bps > rateBps).map((bps) => queueBefore(bps, arrivals));
  const perMs = inWindows(arrivals, 1);
  return {
    arrivals: arrivals.length, bytes: total, durationMs, rateBps,
    windows: arrivals.length === 0 ? [] : WINDOWS_MS.map((ms) => ({
      ms, rate: distribution((ms === 1 ? perMs : inWindows(arrivals, ms)).map((sum) => (sum * 8000) / ms))!,
    })),
    burstBytes: distribution(bursts),
    gapMs: distribution(gaps),
    lines,
    burstBins: binned(bursts, BURST_EDGES_BYTES),
    gapBins: binned(gaps, GAP_EDGES_MS),
    detail: aroundTheFullest(perMs),
    verdict: verdictOf(bursts, rateBps, lines),
  };
}

function burstsOf(arrivals: readonly Arrival[], gapMs: number): { bursts: number[]; gaps: number[] } {
  const bursts: number[] = [];
  const gaps: number[] = [];
  arrivals.forEach((arrival, index) => {
    const gap = index === 0 ? Infinity : arrival.ms - arrivals[index - 1]!.ms;
    if (gap < gapMs) {
      bursts[bursts.length - 1]! += arrival.bytes;
      return;
    }
    if (index > 0) gaps.push(gap);
    bursts.push(arrival.bytes);
  });
  return { bursts, gaps };
}

/** A queue that fills with what comes and drains at the line's rate: its greatest length loses nothing there. */
function queueBefore(bps: number, arrivals: readonly Arrival[]): { bps: number; queueBytes: number; delayMs: number } {
  let [now, most, last] = [0, 0, arrivals[0]?.ms ?? 0];
  for (const { ms, bytes: count } of arrivals) {
    now = Math.max(0, now - ((ms - last) / 8000) * bps) + count;
    most = Math.max(most, now);
    last = ms;
  }
  return { bps, queueBytes: Math.round(most), delayMs: (most * 8000) / bps };
}

function inWindows(arrivals: readonly Arrival[], windowMs: number): number[] {
  const first = arrivals[0]?.ms ?? 0;
  const windows: number[] = [];
  for (const { ms, bytes: count } of arrivals) {
    const index = Math.floor((ms - first) / windowMs);
    while (windows.length <= index) windows.push(0);
    windows[index]! += count;
  }
  return windows;
}

function distribution(values: readonly number[]): Distribution | null {
  if (values.length === 0) return null;
  const ordered = Float64Array.from(values).sort();
  const at = (share: number): number => ordered[Math.max(0, Math.ceil(ordered.length * share) - 1)]!;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** Values by size, each weighing what it is. */
function binned(values: readonly number[], limits: readonly number[]): Bin[] {
  const bins = limits.slice(1).map((to, index) => ({ from: limits[index]!, to, share: 0 }));
  const total = values.reduce((sum, value) => sum + value, 0);
  for (const value of values) {
    const found = bins.findIndex((bin) => value < bin.to);
    bins[found < 0 ? bins.length - 1 : found]!.share += value;
  }
  return bins.map((bin) => ({ ...bin, share: total > 0 ? bin.share / total : 0 }));
}

function aroundTheFullest(perMs: readonly number[]): number[] {
  const fullest = perMs.reduce((best, sum, index) => (sum > perMs[best]! ? index : best), 0);
  const start = Math.max(0, Math.min(fullest - DETAIL_MS / 2, perMs.length - DETAIL_MS));
  return Array.from({ length: DETAIL_MS }, (_, index) => perMs[start + index] ?? 0);
}

function verdictOf(bursts: readonly number[], rateBps: number | null, lines: Summary["lines"]): string {
  if (bursts.length === 0 || rateBps === null) return "Too little came to say anything.";
  const largest = bursts.reduce((a, b) => Math.max(a, b));
  const burst = `${bytes(largest)} (${things(Math.ceil(largest / PACKET_BYTES), "packet")})`;
  const line = lines.find(({ bps }) => bps >= HEADROOM * rateBps);
  if (!line) return `Bursts of up to ${burst}; the stream takes more than half of a ${bits(LINES_BPS[LINES_BPS.length - 1]!)} line.`;
  const [name, queue] = [bits(line.bps), bytes(line.queueBytes)];
  if (line.queueBytes <= SMOOTH_BYTES) {
    return `Smooth: no more than ${burst} come at once. On a ${name} line at most ${queue} ever wait, which any buffer holds.`;
  }
  return `Bursts of up to ${burst}. On a ${name} line up to ${queue} must wait, for ${seconds(line.delayMs / 1000)}: a smaller buffer there loses packets.`;
}
