/** Keeps playback at its distance from the live edge by small changes of its rate, and says where in the window it is. */

/** The part of the stream that can be played now, in seconds of media time. */
export interface SeekWindow {
  start: number;
  /** Where playback is when it is live. */
  live: number;
}

/** Where playback stands, for a slider: seconds, 0 is live, negative in the past. */
export interface Standing {
  /** How far back one can go, as a negative number. */
  earliest: number;
  position: number;
}

/** Nearer to live than this is live: the distance varies by a part's length. */
const LIVE_WITHIN_S = 1;

export function standing(window: SeekWindow, currentTime: number): Standing {
  const earliest = Math.min(0, window.start - window.live);
  return { earliest, position: Math.min(0, Math.max(earliest, currentTime - window.live)) };
}

/** Where a jump of `byS` from `position` ends; null: at live. Stays some way off the window's moving beginning. */
export function jump({ earliest, position }: Standing, byS: number, marginS = 2): number | null {
  const to = Math.max(position + byS, Math.min(0, earliest + marginS));
  return to > -LIVE_WITHIN_S ? null : to;
}

/** What a slider's value is called. */
export function standingText(position: number): string {
  if (position > -LIVE_WITHIN_S) return "Live";
  const seconds = Math.round(-position);
  return `${seconds} second${seconds === 1 ? "" : "s"} behind live`;
}

/** One look at playback. */
export interface Look {
  nowMs: number;
  /** Distance to the live edge in seconds, or what is buffered. */
  behindS: number;
  /** What is wanted. */
  targetS: number;
  /** What is buffered ahead of the picture. */
  bufferS: number;
}

/** Longest distance that is made up for by playing faster; above it playback jumps. */
const JUMP_S = 2.5;
/** The same where one has just begun, or come back to live: nobody minds a jump there. */
const FIRST_JUMP_S = 0.2;
/** How long one has just begun, from the first look on; the buffer fills meanwhile. */
const BEGIN_MS = 700;
/** So long what is left of it is made up for as fast as may be: a viewer who has just come wants to be live. */
const HASTE_MS = 5000;
const FASTEST = 1.1;
const SLOWEST = 0.95;
/** No faster with less than this in the buffer: the next part would come too late. */
const LEAST_BUFFER_S = 0.08;

/** The smallest of the values of a sliding time, so that the saw-tooth of arriving parts is not followed. */
class Least {
  private values: { atMs: number; value: number }[] = [];
  constructor(private readonly spanMs: number) {}

  push(nowMs: number, value: number): number {
    this.values.push({ atMs: nowMs, value });
    while (this.values[0]!.atMs < nowMs - this.spanMs) this.values.shift();
    return Math.min(...this.values.map((one) => one.value));
  }

  clear(): void {
    this.values = [];
  }
}

/** Chooses the rate. Steady within 40 ms of the target, so that sound is not stretched all the time. */
export class Follower {
  private readonly buffers = new Least(600);
  private readonly distances = new Least(600);
  private changing = false;
  private begunMs: number | null = null;
  private settled = false;

  /** The rate; or by how many seconds to jump ahead, where that is too slow. */
  steer({ nowMs, behindS, targetS, bufferS }: Look): { rate: number } | { jumpS: number } {
    const behind = this.distances.push(nowMs, behindS);
    const buffer = this.buffers.push(nowMs, bufferS);
    const over = behind - targetS;
    this.begunMs ??= nowMs;
    if (over > JUMP_S) {
      this.restart();
      return { jumpS: over };
    }
    if (!this.settled && nowMs - this.begunMs > BEGIN_MS) {
      this.settled = true;
      // What is buffered can be left out without waiting for anything.
      const spare = Math.min(over, buffer - LEAST_BUFFER_S);
      if (spare > FIRST_JUMP_S) {
        this.clear();
        return { jumpS: spare };
      }
    }
    const tolerance = this.changing ? 0.01 : 0.04;
    if (over > tolerance && buffer > LEAST_BUFFER_S) {
      this.changing = true;
      const isInHaste = nowMs - this.begunMs < HASTE_MS;
      return { rate: Math.min(FASTEST, isInHaste ? 1.04 + over * 0.5 : 1.02 + over * 0.2) };
    }
    if (over < -tolerance) {
      this.changing = true;
      return { rate: Math.max(SLOWEST, 1 + over * 0.3) };
    }
    this.changing = false;
    return { rate: 1 };
  }

  /** Playback begins anew, or somewhere else. */
  restart(): void {
    this.clear();
    this.begunMs = null;
    this.settled = false;
  }

  private clear(): void {
    this.buffers.clear();
    this.distances.clear();
    this.changing = false;
  }
}

/** A stall's extra: half a part or so, so that the second one does not come. */
const STALL_EXTRA_S = 0.06;
const MAX_EXTRA_S = 1;
const RELAX_AFTER_MS = 20_000;

/** What is added to the wanted distance while playback stalls; it goes again when all is well. */
export class Patience {
  extraS = 0;
  private changedMs = 0;

  stalled(nowMs: number): void {
    this.extraS = Math.min(MAX_EXTRA_S, this.extraS * 1.3 + STALL_EXTRA_S);
    this.changedMs = nowMs;
  }

  /** The extra that counts at this time. */
  relax(nowMs: number): number {
    if (this.extraS > 0 && nowMs - this.changedMs > RELAX_AFTER_MS) {
      this.extraS = this.extraS < 0.01 ? 0 : this.extraS * 0.7;
      this.changedMs = nowMs;
    }
    return this.extraS;
  }
}
