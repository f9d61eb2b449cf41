/** A stream's curves as the page keeps them: what the server told so far, put together. */
import type { Curves } from "./api";

type Numbers = (number | null)[];

/** The arrays of an answer. */
const NAMES = [
  "in_bps", "out_bps", "viewers", "slow", "moved_forward", "retransmitted_segments", "behind_p50_ms", "behind_p95_ms",
] as const;
export type CurveName = (typeof NAMES)[number];

/** Steps asked for again beyond those that must be new: an answer late by this many joins on. */
const OVERLAP = 5;

export class History {
  private first = 0;
  private beganMs = 0;
  private readonly arrays: Record<CurveName, Numbers>;

  /** At most `capacity` steps of `stepS` seconds are kept. */
  constructor(readonly stepS: 1 | 10, private readonly capacity: number) {
    this.arrays = Object.fromEntries(NAMES.map((name) => [name, []])) as unknown as Record<CurveName, Numbers>;
  }

  get length(): number {
    return this.arrays.in_bps.length;
  }

  /** How many steps to ask for, `elapsedMs` after the last answer. */
  missing(elapsedMs: number): number {
    if (this.length === 0) return this.capacity;
    return Math.min(this.capacity, Math.ceil(elapsedMs / 1000 / this.stepS) + OVERLAP);
  }

  /** Takes an answer. One that does not join on (the stream or the server began anew, or too much was missed) replaces all. */
  merge(curves: Curves): void {
    const step = curves.step_s * 1000;
    const beganMs = curves.begins_utc_us / 1000 - curves.first * step;
    const end = this.first + this.length;
    const joins = curves.first >= this.first && curves.first <= end && Math.abs(beganMs - this.beganMs) < 5000;
    if (!joins) this.first = curves.first;
    this.beganMs = beganMs;
    for (const name of NAMES) {
      const kept = joins ? this.arrays[name].slice(0, curves.first - this.first) : [];
      this.arrays[name] = [...kept, ...curves[name]];
    }
    const surplus = this.length - this.capacity;
    if (surplus <= 0) return;
    for (const name of NAMES) this.arrays[name].splice(0, surplus);
    this.first += surplus;
  }

  values(name: CurveName): readonly (number | null)[] {
    return this.arrays[name];
  }

  /** The wall clock's time at which step `index` of those kept ends, in ms. */
  timeMs(index: number): number {
    return this.beganMs + (this.first + index + 1) * this.stepS * 1000;
  }
}
