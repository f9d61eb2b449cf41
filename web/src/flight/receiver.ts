/** Reads a stream for its arrival times alone, as one more viewer of it. */
import type { Arrival } from "./flight";

/** Servers begin with what they have kept since the last key frame: that is left out. */
export const SKIP_MS = 500;
/** So much is looked at. */
export const DURATION_MS = 10_000;
/** Reads that are kept at most: some 100 Mbit/s. */
const ARRIVALS_MAX = 200_000;

export class Receiver {
  readonly arrivals: Arrival[] = [];
  private readonly abort = new AbortController();

  /** Reads `path` until [`DURATION_MS`] are over, the stream ends or [`stop`] is called. Answers what went wrong, if anything did. */
  async run(path: string): Promise<string | null> {
    const limit = window.setTimeout(() => this.stop(), SKIP_MS + DURATION_MS);
    try {
      const response = await fetch(path, { cache: "no-store", signal: this.abort.signal });
      if (!response.ok || !response.body) return `The server answered ${response.status}.`;
      const reader = response.body.getReader();
      let first: number | null = null;
      for (;;) {
        const { done, value } = await reader.read();
        const ms = performance.now();
        if (done || this.arrivals.length === ARRIVALS_MAX) return null;
        first ??= ms;
        if (ms - first >= SKIP_MS && value.length > 0) this.arrivals.push({ ms, bytes: value.length });
      }
    } catch {
      return this.abort.signal.aborted ? null : "The connection was lost.";
    } finally {
      window.clearTimeout(limit);
      this.abort.abort();
    }
  }

  stop(): void {
    this.abort.abort();
  }
}
