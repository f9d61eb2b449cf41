import { describe, expect, it } from "vitest";
import type { Curves } from "./api";
import { History } from "./history";

const BEGAN_US = 1_790_000_000_000_000;

/** Steps `first` to `end`, each as high as its number. */
function curves(first: number, end: number, beganUs = BEGAN_US): Curves {
  const numbers = Array.from({ length: end - first }, (_, i) => first + i);
  return {
    step_s: 1, first, begins_utc_us: beganUs + first * 1e6, in_bps: numbers, out_bps: numbers, viewers: numbers, slow: numbers,
    moved_forward: numbers, retransmitted_segments: numbers, behind_p50_ms: numbers.map(() => null), behind_p95_ms: numbers,
  };
}

describe("a stream's history", () => {
  it("joins what overlaps, and forgets what is too old", () => {
    const history = new History(1, 10);
    expect(history.missing(0)).toBe(10);
    history.merge(curves(0, 6));
    expect(history.missing(2000)).toBe(7);
    history.merge(curves(4, 8));
    expect(history.values("in_bps")).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    history.merge(curves(8, 12));
    expect(history.values("viewers")).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(history.values("behind_p50_ms")).toEqual(Array(10).fill(null));
    expect(history.timeMs(0)).toBe(BEGAN_US / 1000 + 3000);
    expect(history.timeMs(9)).toBe(BEGAN_US / 1000 + 12_000);
  });

  it("begins anew where the stream does, or too much was missed", () => {
    const history = new History(1, 10);
    history.merge(curves(0, 6));
    history.merge(curves(9, 12));
    expect(history.values("in_bps")).toEqual([9, 10, 11]);
    history.merge(curves(10, 12, BEGAN_US + 60e6));
    expect(history.values("in_bps")).toEqual([10, 11]);
    history.merge(curves(0, 0, BEGAN_US + 90e6));
    expect(history.length).toBe(0);
  });
});
