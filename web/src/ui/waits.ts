/** How long requests for objects waited, as numbers and words: what the server's buckets say. */
import type { NamedObjects, ObjectCounts } from "../api";
import type { Axis, Tick } from "./chart";
import { waited } from "./format";

/** The axis of waits: from 0.1 ms to 20 s, by ratio. */
const LEAST_MS = 0.1;
const MOST_MS = 20_000;
const TICKS: [number, string][] = [[0.1, "0.1 ms"], [1, "1"], [10, "10"], [100, "100 ms"], [1000, "1 s"], [10_000, "10 s"]];

/** Where a wait is on the axis, from 0 to 1. */
export function shareOf(ms: number): number {
  return Math.min(1, Math.max(0, Math.log(ms / LEAST_MS) / Math.log(MOST_MS / LEAST_MS)));
}

/** The edges that are on the axis, and the first one beyond, which stands at its end. */
function edgesOf(edgesMs: readonly number[]): readonly number[] {
  return edgesMs.slice(0, edgesMs.findIndex((edge) => edge > MOST_MS) + 1);
}

/** The axis of buckets that end at `edgesMs`: a point at each end. */
export function waitAxis(edgesMs: readonly number[]): Axis {
  const points = [LEAST_MS, ...edgesOf(edgesMs)];
  const shares = points.map(shareOf);
  const ticks = TICKS.map(([ms, words]): Tick => ({ share: shareOf(ms), anchor: ms === LEAST_MS ? "start" : "middle", words, ruled: true }));
  return {
    length: points.length,
    share: (index) => shares[index] ?? 1,
    nearest: (share) => {
      if (share < -0.02 || share > 1.02) return null;
      const distance = (index: number): number => Math.abs(shares[index]! - share);
      return shares.reduce((best, _, index) => (distance(index) < distance(best) ? index : best), 0);
    },
    ticks,
    at: (index) => `within ${waited(points[Math.max(1, index)] ?? null)}`,
    range: "ten minutes",
  };
}

/** How many of a hundred waited no longer, at each point of `waitAxis(edgesMs)`; nothing of nothing. */
export function cumulated(edgesMs: readonly number[], counts: readonly number[]): (number | null)[] {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const ends = edgesOf(edgesMs);
  let seen = 0;
  const shares = ends.map((_, index) => {
    seen += counts[index] ?? 0;
    return total === 0 ? null : (seen / total) * 100;
  });
  return [shares[0] ?? null, ...shares];
}

/** Waits at which many end together. */
export interface Step {
  ms: number;
  share: number;
}

/** From so long on a step is worth a word: what is shorter is a network's round trip. */
const STEP_FROM_MS = 100;
const STEP_LEAST_REQUESTS = 20;
const STEP_LEAST_SHARE = 0.05;
/** Buckets around a step that must be nearly empty beside it. */
const STEP_AROUND = 4;

/** The largest step of a distribution: two buckets side by side that hold a good part of all and tower over those around. */
export function stepOf(edgesMs: readonly number[], counts: readonly number[]): Step | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total < STEP_LEAST_REQUESTS) return null;
  const sum = (from: number, to: number): number => counts.slice(Math.max(0, from), Math.max(0, to)).reduce((all, count) => all + count, 0);
  let best: Step | null = null;
  for (let bucket = 1; bucket + 1 < edgesMs.length; bucket += 1) {
    const [own, next] = [counts[bucket]!, counts[bucket + 1]!];
    const around = sum(bucket - STEP_AROUND, bucket) + sum(bucket + 2, bucket + 2 + STEP_AROUND);
    const share = (own + next) / total;
    if (edgesMs[bucket - 1]! < STEP_FROM_MS || share < STEP_LEAST_SHARE || around * 2 > own + next) continue;
    if (best !== null && best.share >= share) continue;
    const fuller = own >= next ? bucket : bucket + 1;
    best = { ms: Math.sqrt(edgesMs[fuller - 1]! * edgesMs[fuller]!), share };
  }
  return best;
}

/** A share in words: "12 %", but never "0 %" of something. */
export function percent(share: number): string {
  if (share > 0 && share < 0.01) return "< 1 %";
  if (share < 1 && share > 0.99) return "> 99 %";
  return `${Math.round(share * 100)} %`;
}

/** The sources for which nobody else has to be asked. */
const HERE = ["packaged", "hit", "stale", "disk"];

/** Which part of requests was here already; null of nothing. */
export function hitShare({ requests, by_source }: Pick<ObjectCounts, "requests" | "by_source">): number | null {
  if (requests === 0) return null;
  return HERE.reduce((sum, source) => sum + (by_source[source] ?? 0), 0) / requests;
}

const SOURCE_WORDS: Record<string, string> = {
  packaged: "packaged here", hit: "kept here", stale: "kept here, asked about meanwhile", joined: "on their way already", disk: "kept on the disk", miss: "fetched for it",
};
const KIND_WORDS: Record<string, [string, string]> = {
  playlist: ["playlist", "playlists"], init: ["header", "headers"], segment: ["segment", "segments"], part: ["part", "parts"],
  other: ["other", "others"],
};

function counted(counts: Record<string, number>): string {
  return Object.entries(counts).filter(([, count]) => count > 0)
    .map(([kind, count]) => `${count.toLocaleString("en")} ${KIND_WORDS[kind]?.[count === 1 ? 0 : 1] ?? kind}`).join(", ");
}

/** What the requests of ten minutes were for, where that came from, and what was waited for on purpose: a line each. */
export function factsOf(named: NamedObjects): [string, string][] {
  const sources = Object.entries(named.by_source).filter(([, count]) => count > 0).sort(([, a], [, b]) => b - a)
    .map(([source, count]) => `${percent(count / named.requests)} ${SOURCE_WORDS[source] ?? source}`).join(", ");
  const facts: [string, string][] = [["Asked for", counted(named.by_kind)], ["Came from", sources]];
  if (named.awaited > 0) {
    facts.push(["Not made yet", `${counted(named.awaited_by_kind)}: half of them came within ${waited(named.awaited_p50_ms)}, 95 of 100 within ${waited(named.awaited_p95_ms)}`]);
  }
  return facts;
}

/** A distribution in words. */
export function distributionWords(edgesMs: readonly number[], named: NamedObjects): string {
  const ready = named.requests - named.awaited;
  const step = stepOf(edgesMs, named.distribution);
  const parts = [
    ready === 0
      ? "Nothing was asked for that was made already"
      : `Made already: half within ${waited(named.p50_ms)}, 95 of 100 within ${waited(named.p95_ms)}, 99 within ${waited(named.p99_ms)}`,
    ...(step === null ? [] : [stepWords(step)]),
    ...(named.awaited === 0 ? [] : [`not made yet: half within ${waited(named.awaited_p50_ms)}, 95 of 100 within ${waited(named.awaited_p95_ms)}`]),
  ];
  return parts.join("; ");
}

export function stepWords({ ms, share }: Step): string {
  return `${percent(share)} waited about ${waited(ms)}, all alike: a step`;
}

/** How a name is shown: what is of no stream has none. */
export function shownName(name: string): string {
  return name === "(other)" ? "Other addresses" : name;
}
