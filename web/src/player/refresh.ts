/** When what a page draws is seen. */

/** Before it is measured: what most screens have. */
const USUAL_MS = 1000 / 60;
/** Frames of the page that one measurement takes. */
const FRAMES = 12;
/** How often it is measured: a window may move to another screen. */
const EVERY_MS = 30_000;
/** Beyond these it is no refresh of a screen. */
const BOUNDS_MS = [2, 50] as const;
/** What a browser says of a picture's time on the screen is believed up to so long after it says it. */
const AHEAD_MS = 100;

/** The time from one refresh of the screen to the next, measured by the page's frames. */
export class Refresh {
  private intervalMs = USUAL_MS;
  private measuredMs = -Infinity;
  private frames: number[] | null = null;

  /** Measures, where that is due; `frameMs` is the time that the current frame of the page has. */
  follow(frameMs: number): void {
    if (this.frames || frameMs - this.measuredMs < EVERY_MS) return;
    this.measuredMs = frameMs;
    this.frames = [];
    const next = (atMs: number): void => {
      const frames = this.frames!;
      frames.push(atMs);
      if (frames.length <= FRAMES) requestAnimationFrame(next);
      else {
        this.intervalMs = intervalOf(frames) ?? this.intervalMs;
        this.frames = null;
      }
    };
    requestAnimationFrame(next);
  }

  /** When what is drawn at `nowMs` in the frame of `frameMs` is on the screen, at the earliest: with the next refresh. */
  shownMs(frameMs: number, nowMs: number): number {
    const refreshes = Math.max(1, Math.ceil((nowMs - frameMs) / this.intervalMs));
    return frameMs + refreshes * this.intervalMs;
  }
}

/** The middle of the distances; null where that is none of a screen. */
export function intervalOf(framesMs: readonly number[]): number | null {
  const distances = framesMs.slice(1).map((at, i) => at - framesMs[i]!).sort((a, b) => a - b);
  const middle = distances[distances.length >> 1];
  return middle !== undefined && middle >= BOUNDS_MS[0] && middle <= BOUNDS_MS[1] ? middle : null;
}

/** When a `<video>`'s picture is on the screen, as the browser says at `nowMs` (`expectedDisplayTime`), if that can be. */
export function displayMs(expectedMs: number | undefined, nowMs: number): number {
  const isLikely = expectedMs !== undefined && expectedMs >= nowMs && expectedMs <= nowMs + AHEAD_MS;
  return isLikely ? expectedMs : nowMs;
}
