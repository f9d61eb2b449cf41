/** The server's wall clock as seen from here: offset by exchanges, the one with the smallest round trip counts. */
import { serverTime } from "./api";

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

const EXCHANGES = 8;
const REPEAT_MS = 30_000;

/** Keeps the offset fresh while running. */
export class ServerClock {
  offset: Offset | null = null;
  private timer = 0;
  private stopped = false;

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

  private async measure(): Promise<void> {
    const exchanges: Exchange[] = [];
    for (let i = 0; i < EXCHANGES && !this.stopped; i++) {
      const sentMs = performance.now();
      const serverUs = await serverTime();
      if (serverUs === null) break;
      exchanges.push({ sentMs, receivedMs: performance.now(), serverUs });
    }
    this.offset = estimateOffset(exchanges) ?? this.offset;
    if (!this.stopped) this.timer = window.setTimeout(() => void this.measure(), this.offset ? REPEAT_MS : 2000);
  }
}
