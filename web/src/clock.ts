/** The server's wall clock as seen from here: offset by exchanges, the one with the smallest round trip counts. */
import { TIME_PATH, serverTime } from "./api";

/** One exchange; local times in ms of `performance.now()`, the server's in µs UTC. */
export interface Exchange {
  sentMs: number;
  receivedMs: number;
  serverUs: number;
}

export interface Offset {
  /** Server UTC (µs) = offset + local ms · 1000. */
  offsetUs: number;
  /** The offset is wrong by at most half of it. */
  roundTripMs: number;
}

/** The best estimate out of several exchanges. Null when there are none. */
export function estimateOffset(exchanges: readonly Exchange[]): Offset | null {
  let best: Offset | null = null;
  for (const { sentMs, receivedMs, serverUs } of exchanges) {
    const roundTripMs = receivedMs - sentMs;
    if (roundTripMs < 0 || (best && roundTripMs >= best.roundTripMs)) continue;
    best = { offsetUs: serverUs - ((sentMs + receivedMs) / 2) * 1000, roundTripMs };
  }
  return best;
}

const STEP_LOOKS = 300_000;
let stepMs: number | null = null;

/** How finely this browser tells the time, in ms: times that are closer are told as the same. Looked at once, for as long as a step lasts. */
export function timerStepMs(): number {
  if (stepMs !== null) return stepMs;
  let from = performance.now();
  let steps = 0;
  for (let look = 0; look < STEP_LOOKS; look++) {
    const now = performance.now();
    if (now === from) continue;
    stepMs = now - from;
    from = now;
    // The first change ends a step that had begun before.
    if ((steps += 1) === 2) break;
  }
  // No change in so many looks: a browser that hides the time.
  return (stepMs ??= 20);
}

const EXCHANGES = 8;
const REMEMBERED = 16;
/** The first round falls into the page's busy start: a second one follows soon. */
const REPEAT_MS = [2000, 5000, 30_000];

/** Keeps the offset fresh while running. */
export class ServerClock {
  offset: Offset | null = null;
  private exchanges: Exchange[] = [];
  private rounds = 0;
  private timer = 0;
  private stopped = false;
  private waiting: (() => void)[] = [];

  start(): void {
    void this.measure();
  }

  stop(): void {
    this.stopped = true;
    window.clearTimeout(this.timer);
  }

  /** Server UTC in µs at the local time `nowMs`; null before the first exchange. */
  nowUs(nowMs: number): number | null {
    return this.offset ? this.offset.offsetUs + nowMs * 1000 : null;
  }

  /** Waits for the first offset, `patienceMs` at the most. */
  known(patienceMs: number): Promise<void> {
    if (this.offset) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = window.setTimeout(resolve, patienceMs);
      this.waiting.push(() => {
        window.clearTimeout(timer);
        resolve();
      });
    });
  }

  private async measure(): Promise<void> {
    for (let i = 0; i < EXCHANGES && !this.stopped; i++) {
      const sentMs = performance.now();
      const serverUs = await serverTime();
      if (serverUs === null) break;
      const receivedMs = performance.now();
      this.exchanges.push({ ...(networkTimes(sentMs) ?? { sentMs, receivedMs }), serverUs });
      if (this.exchanges.length > REMEMBERED) this.exchanges.shift();
    }
    this.offset = estimateOffset(this.exchanges);
    if (this.offset) for (const resolve of this.waiting.splice(0)) resolve();
    const wait = this.offset ? REPEAT_MS[Math.min(this.rounds++, REPEAT_MS.length - 1)]! : REPEAT_MS[0]!;
    if (!this.stopped) this.timer = window.setTimeout(() => void this.measure(), wait);
  }
}

/**
 * When the newest exchange really left and arrived, by the browser's own record: free of what the page was busy with.
 * Null where the browser doesn't tell.
 */
function networkTimes(notBeforeMs: number): { sentMs: number; receivedMs: number } | null {
  const entry = performance.getEntriesByName(new URL(TIME_PATH, location.href).href).at(-1);
  // The record holds some 250 entries and then no more.
  performance.clearResourceTimings();
  if (!(entry instanceof PerformanceResourceTiming) || entry.startTime < notBeforeMs - 1) return null;
  const { requestStart: sentMs, responseStart: receivedMs } = entry;
  return sentMs > 0 && receivedMs >= sentMs ? { sentMs, receivedMs } : null;
}
