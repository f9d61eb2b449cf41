/** The decisions that keep playback near the live edge, as pure functions and small state machines. Times in ms. */

const WINDOW_MS = 10_000;
const SETTLED_MS = 150;
const SETTLED_BY_MS = 30;

/**
 * Finds the live edge from arrivals alone: transit = arrival − media time falls while a backlog is being read and is
 * flat at the live edge. Its minimum over the last seconds is what a picture that isn't late at all would have.
 */
export class LiveEdge {
  private current = Infinity;
  private previous = Infinity;
  private windowStart = -Infinity;
  private loweredAt = -Infinity;
  private reference = Infinity;

  /** A unit with media time `mediaMs` arrived at `nowMs`. */
  observe(nowMs: number, mediaMs: number): void {
    if (nowMs - this.windowStart > WINDOW_MS) {
      this.previous = this.current;
      this.current = Infinity;
      this.windowStart = nowMs;
    }
    const transit = nowMs - mediaMs;
    this.current = Math.min(this.current, transit);
    if (transit < this.reference - SETTLED_BY_MS) {
      this.reference = transit;
      this.loweredAt = nowMs;
    }
  }

  reset(): void {
    this.current = this.previous = this.reference = Infinity;
    this.windowStart = this.loweredAt = -Infinity;
  }

  /** Whether the backlog has been read. */
  settled(nowMs: number): boolean {
    return Number.isFinite(this.reference) && nowMs - this.loweredAt >= SETTLED_MS;
  }

  /** How far media time `mediaMs`, shown at `nowMs`, is behind the live edge; null before any arrival. */
  behind(nowMs: number, mediaMs: number): number | null {
    const least = Math.min(this.current, this.previous);
    return Number.isFinite(least) ? Math.max(0, nowMs - mediaMs - least) : null;
  }
}

/** What to do with a coded picture when `queued` others wait for the decoder. */
export function admit(queued: number, unit: { key: boolean; reference: boolean }, frameRate: number): "decode" | "skip" | "restart" {
  const limit = Math.max(6, Math.round(frameRate * 0.2));
  if (queued <= limit) return "decode";
  // A key frame needs none of the waiting ones: begin anew with it.
  if (unit.key) return "restart";
  return unit.reference ? "decode" : "skip";
}

/** A decoded picture that waits to be shown. */
export interface Waiting {
  ptsUs: number;
  decodedMs: number;
}

/** No picture waits longer than this for its sound. */
export const MAX_HOLD_MS = 200;

/**
 * Index of the picture to show now out of `waiting` (in order of presentation), -1: none yet. With no audio clock it
 * is the newest; with one, the newest whose time has come or that has waited too long.
 */
export function choose(waiting: readonly Waiting[], nowMs: number, audioClockUs: number | null): number {
  if (audioClockUs === null) return waiting.length - 1;
  for (let i = waiting.length - 1; i >= 0; i--) {
    const { ptsUs, decodedMs } = waiting[i]!;
    if (ptsUs <= audioClockUs + 4000 || nowMs - decodedMs >= MAX_HOLD_MS) return i;
  }
  return -1;
}

/** What MSE playback looks like at one moment, in seconds of media time. */
export interface Playback {
  nowMs: number;
  currentTime: number;
  /** Start and end of the newest buffered range. */
  bufferedStart: number;
  bufferedEnd: number;
  /** The backlog after a join has been read. */
  settled: boolean;
  /** Playback waits for data at this moment. */
  starved: boolean;
  /**
   * How long after its time the newest picture came: playback goes on over the end of what is there where the picture before
   * was told to last for long.
   */
  late: number;
}

export type Steering = { seekTo: number } | { rate: number };

const MIN_TARGET_S = 0.08;
const MAX_TARGET_S = 0.8;
const JUMP_S = 1.0;
const JUMP_BACK_S = 0.5;
const RELAX_AFTER_MS = 10_000;
const JOIN_PATIENCE_MS = 600;

/** Keeps an MSE element near its buffer's end: jumps after the join's burst, then small changes of the rate. */
export class EdgeControl {
  /** Wanted distance to the buffer's end, in seconds. Grows when playback starves, shrinks slowly when not. */
  target: number;
  private joinedAt: number | null = null;
  private jumpedToEdge = false;
  private lastChange = 0;
  private wasStarved = false;
  private fast = false;

  constructor(private readonly minTarget = MIN_TARGET_S) {
    this.target = minTarget;
  }

  /** A new join or a jump in the stream: find the edge again. */
  rejoin(): void {
    this.joinedAt = null;
    this.jumpedToEdge = false;
  }

  /** Whether the first jump to the live edge has been made. */
  get atEdge(): boolean {
    return this.jumpedToEdge;
  }

  steer(p: Playback): Steering {
    this.joinedAt ??= p.nowMs;
    const ahead = p.bufferedEnd - p.currentTime;
    if (p.currentTime < p.bufferedStart - 0.001) return { seekTo: this.edge(p) };
    if (!this.jumpedToEdge) {
      if (!p.settled && p.nowMs - this.joinedAt < JOIN_PATIENCE_MS) return { rate: 1 };
      this.jumpedToEdge = true;
      this.lastChange = p.nowMs;
      if (ahead > this.target + 0.1) return { seekTo: this.edge(p) };
    }
    this.adapt(p);
    if (ahead > JUMP_S + this.target) return { seekTo: this.edge(p) };
    if (ahead > this.target + (this.fast ? 0.01 : 0.05)) {
      this.fast = true;
      return { rate: Math.min(1.1, 1.02 + (ahead - this.target) * 0.4) };
    }
    this.fast = false;
    if (p.late > JUMP_BACK_S) return { seekTo: this.edge(p) };
    return { rate: p.late > 0 ? 0.9 : 1 };
  }

  private edge(p: Playback): number {
    return Math.max(p.bufferedStart, p.bufferedEnd - Math.max(this.target, 0.05));
  }

  private adapt(p: Playback): void {
    if (p.starved && !this.wasStarved) {
      this.target = Math.min(MAX_TARGET_S, this.target * 1.3 + 0.01);
      this.lastChange = p.nowMs;
    } else if (p.nowMs - this.lastChange > RELAX_AFTER_MS) {
      this.target = Math.max(this.minTarget, this.target * 0.9);
      this.lastChange = p.nowMs;
    }
    this.wasStarved = p.starved;
  }
}

/**
 * How far an MSE buffer may be emptied, in seconds: up to the newest of `keys` (times of key frames, ascending) that is
 * not after `before`; null where there is none. A browser that removes part of a GOP removes the rest of it too, so
 * anything else would take away what is being played.
 */
export function trimPoint(keys: readonly number[], before: number): number | null {
  return keys.findLast((key) => key <= before) ?? null;
}

const REMEMBERED_STEPS = 50;
const MAX_DURATION = 5;
/** No camera is this quick: what stands nearer to the picture before was put there by a player. */
const MIN_STEP = 0.001;
/** Long enough for any stream that shows movement; how far the buffer reaches is known without it. */
const UNKNOWN_DURATION = 0.5;
/** A picture or some that are missing are no reason to join again. */
const LEAST_TOLD = 0.25;

/**
 * How long a picture lasts whose successor has not come, in seconds: what an MSE buffer is told of the newest one. A picture
 * that comes later than twice that (MSE, "coded frame processing") is a discontinuity for a browser, which then drops all up
 * to the next key frame. So it is the longest of the last steps and not the last one, and long enough that a few pictures may be
 * missing between.
 */
export class PictureDuration {
  private steps: number[] = [];

  add(step: number): void {
    if (step < MIN_STEP) return;
    this.steps.push(Math.min(step, MAX_DURATION));
    if (this.steps.length > REMEMBERED_STEPS) this.steps.shift();
  }

  /** What the buffer is told. */
  get told(): number {
    return this.steps.length > 0 ? Math.max(LEAST_TOLD, ...this.steps) : UNKNOWN_DURATION;
  }

  /** What the newest picture surely lasts. */
  get shortest(): number {
    return this.steps.length > 0 ? Math.min(...this.steps) : 0;
  }
}

/** Whether a browser drops a picture this far from the one before, which lasts `told` as far as it was told. */
export function isTooFar(step: number, told: number): boolean {
  return step > 2 * told;
}

/** Who is not let in is told by a person, and not by the next try: it is tried again after so long. */
export const REFUSED_MS = 60_000;

/** What a viewer can do who is not let in; null for other answers. */
export function refusal(status: number): string | null {
  switch (status) {
    case 401:
      return "This stream is for invited viewers. Open the link that you were sent, or ask for one.";
    case 403:
      return "Your link does not let you in: its time may be over, or it is not good from where you are. Ask for a new one.";
    default:
      return null;
  }
}

/** Waiting time before the next try to connect: 250 ms, doubling up to 3 s. `tries` counts from 0. */
export function backOff(tries: number): number {
  return Math.min(3000, 250 * 2 ** Math.min(tries, 10));
}

/** A tick that is so much late was not held up by other work: the page did not run. */
const NOT_RUN_MS = 1000;

/**
 * Time that passes only while the page runs. A machine that sleeps and a page that the browser freezes show no picture
 * either, which says nothing of the stream. It is told each `periodMs` that the page runs.
 */
export class RunningClock {
  private stillMs = 0;
  private tickedMs: number | null = null;

  constructor(private readonly periodMs: number) {}

  tick(nowMs: number): void {
    this.stillMs = nowMs - this.at(nowMs);
    this.tickedMs = nowMs;
  }

  /** The time at `nowMs`, which may be before the tick that is late. */
  at(nowMs: number): number {
    const lateMs = this.tickedMs === null ? 0 : nowMs - this.tickedMs - this.periodMs;
    return nowMs - this.stillMs - (lateMs > NOT_RUN_MS ? lateMs : 0);
  }
}
