/** Asking the server again and again, while there is a page to show it on. */

/** What of a document the poller uses. */
export interface Shown {
  readonly hidden: boolean;
  addEventListener(kind: "visibilitychange", listener: () => void): void;
}

/**
 * Runs `ask` at once and then every `everyMs`, never twice at a time. While the page is hidden it rests, or asks every
 * `hiddenEveryMs` where that is given, and asks as soon as the page is shown again. Where `ask` answers false it ends for good;
 * a number is how many ms it waits this time.
 */
export class Poller {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private askedMs = -Infinity;
  private asking = false;
  private ended = false;
  /** What is asked was changed meanwhile. */
  private again: number | null = null;

  constructor(
    private readonly everyMs: number, private readonly ask: () => Promise<boolean | number | void>, private readonly page: Shown = document,
    private readonly hiddenEveryMs: number | null = null,
  ) {
    page.addEventListener("visibilitychange", () => {
      clearTimeout(this.timer);
      this.plan();
    });
  }

  start(): void {
    this.plan();
  }

  /** Asks before its time, `leastMs` after the last time at the earliest: something has been changed from here. */
  soon(leastMs = 300): void {
    if (this.asking) this.again = leastMs;
    else this.plan(leastMs);
  }

  private plan(afterMs = this.everyMs): void {
    if (this.ended || this.asking) return;
    if (this.page.hidden) {
      if (this.hiddenEveryMs === null) return;
      afterMs = Math.max(afterMs, this.hiddenEveryMs);
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.run(), Math.max(0, this.askedMs + afterMs - performance.now()));
  }

  private async run(): Promise<void> {
    let nextMs = this.everyMs;
    this.asking = true;
    this.askedMs = performance.now();
    try {
      const answer = await this.ask();
      this.ended = answer === false;
      if (typeof answer === "number") nextMs = answer;
    } finally {
      this.asking = false;
      this.plan(this.again ?? nextMs);
      this.again = null;
    }
  }
}
