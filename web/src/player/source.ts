/** The stream's bytes over HTTP: reads without end, comes back by itself. */
import { livePath } from "../api";
import { REFUSED_MS, backOff, refusal } from "./policy";

export type SourceState = "connecting" | "absent" | "reading" | "quiet" | "reconnecting" | "refused";

export interface SourceHandler {
  /** A new answer begins; `reason` says what ended the one before, null where there was none. */
  connected(reason: string | null): void;
  chunk(bytes: Uint8Array, nowMs: number): void;
  state(state: SourceState, detail: string | null): void;
}

const POLL_MS = 1000;
/** A stream that does not begin soon is asked for less often. */
const POLL_OFTEN = 60;
const POLL_LATER_MS = 3000;
const QUIET_MS = 1500;
const GIVE_UP_MS = 12_000;

export class Source {
  private stopped = false;
  private abort = new AbortController();
  private lastByteMs = 0;
  private watch = 0;
  private wake: (() => void) | null = null;
  bytes = 0;

  /** `search` is the query whose token lets the viewer in. */
  constructor(readonly name: string, private readonly handler: SourceHandler, private readonly search: string = location.search) {}

  start(): void {
    void this.run();
    this.watch = window.setInterval(() => this.lookForSilence(), 250);
  }

  stop(): void {
    this.stopped = true;
    window.clearInterval(this.watch);
    this.abort.abort();
    this.wake?.();
  }

  /** Drops the connection and joins again at once. */
  rejoin(reason: string): void {
    this.rejoining = true;
    this.drop(reason);
    this.wake?.();
  }
  private rejoining = false;
  /** Why the answer was dropped from here. */
  private dropped: string | null = null;
  private ended: string | null = null;

  private drop(reason: string): void {
    this.dropped = reason;
    this.abort.abort();
  }

  private async run(): Promise<void> {
    let tries = 0;
    let first = true;
    while (!this.stopped) {
      this.handler.state(first ? "connecting" : "reconnecting", null);
      this.rejoining = false;
      this.abort = new AbortController();
      let waitMs = backOff(tries);
      try {
        const response = await fetch(livePath(this.name, this.search), { cache: "no-store", signal: this.abort.signal });
        if (response.ok && response.body) {
          first = false;
          if (await this.read(response.body)) tries = 0;
          waitMs = backOff(tries);
        } else {
          const refused = refusal(response.status);
          waitMs = refused !== null ? REFUSED_MS : response.status !== 404 ? backOff(tries) : tries < POLL_OFTEN ? POLL_MS : POLL_LATER_MS;
          if (refused !== null) this.handler.state("refused", refused);
          else if (response.status === 404) this.handler.state("absent", null);
          else this.handler.state("reconnecting", await explain(response));
        }
      } catch {
        // Unreachable, or cut: tried again below.
        if (!this.stopped && !this.rejoining) this.handler.state("reconnecting", null);
      }
      tries += 1;
      if (!this.stopped && !this.rejoining) await this.sleep(waitMs);
    }
  }

  /** Reads to the end; whether anything came. */
  private async read(body: ReadableStream<Uint8Array>): Promise<boolean> {
    this.handler.connected(this.ended);
    this.dropped = null;
    this.ended = "the server ended the connection";
    this.lastByteMs = performance.now();
    const reader = body.getReader();
    let any = false;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done || this.stopped) return any;
        this.lastByteMs = performance.now();
        this.bytes += value.length;
        any = true;
        this.handler.state("reading", null);
        this.handler.chunk(value, this.lastByteMs);
      }
    } catch {
      this.ended = this.dropped ?? "the connection was lost";
      return any;
    } finally {
      this.lastByteMs = 0;
    }
  }

  private lookForSilence(): void {
    if (this.lastByteMs === 0) return;
    const silence = performance.now() - this.lastByteMs;
    if (silence > GIVE_UP_MS) this.drop(`nothing came for ${GIVE_UP_MS / 1000} seconds`);
    else if (silence > QUIET_MS) this.handler.state("quiet", null);
  }

  private sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = window.setTimeout(resolve, ms);
      this.wake = () => {
        window.clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** The sentence of an RFC 9457 problem, or the status line. */
async function explain(response: Response): Promise<string> {
  try {
    const problem = (await response.json()) as { detail?: unknown; title?: unknown };
    if (typeof problem.detail === "string") return problem.detail;
    if (typeof problem.title === "string") return problem.title;
  } catch {
    // Not JSON.
  }
  return `the server answered ${response.status} ${response.statusText}`.trim();
}
