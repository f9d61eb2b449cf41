import { describe, expect, it } from "vitest";
import type { NamedObjects } from "../api";
import { runPath, timeAxis } from "./chart";
import { waited } from "./format";
import { quietWindows, rateText } from "./objects";
import { cumulated, distributionWords, factsOf, hitShare, percent, shareOf, shownName, stepOf, waitAxis } from "./waits";

/** The server's buckets: four a doubling, from 128 µs on. */
const EDGES = Array.from({ length: 73 }, (_, edge) => ((4 + (edge % 4)) * 2 ** Math.floor(edge / 4) * 32) / 1000);
const bucketOf = (ms: number): number => EDGES.findIndex((edge) => ms < edge);

function counts(...waits: [ms: number, count: number][]): number[] {
  const all = new Array<number>(EDGES.length + 1).fill(0);
  for (const [ms, count] of waits) all[bucketOf(ms)]! += count;
  return all;
}

const none = { playlist: 0, init: 0, segment: 0, part: 0, other: 0 };
const named: NamedObjects = {
  name: "hall", requests: 110, awaited: 10, by_source: { packaged: 0, hit: 60, stale: 5, joined: 30, miss: 15 },
  by_kind: { ...none, playlist: 10, segment: 99, init: 1 }, awaited_by_kind: { ...none, playlist: 10 },
  p50_ms: 0.064, p95_ms: 490, p99_ms: 490, awaited_p50_ms: 180, awaited_p95_ms: 210,
  last_minute: {} as NamedObjects["last_minute"], windows: {} as NamedObjects["windows"],
  distribution: counts([0.05, 65], [5, 5], [500, 30]), awaited_distribution: counts([180, 10]),
};

describe("waits for objects", () => {
  it("stand on an axis by ratio from 0.1 ms to 20 s", () => {
    expect([shareOf(0.1), shareOf(20_000), shareOf(0), shareOf(1e9)]).toEqual([0, 1, 0, 1]);
    expect(shareOf(1) - shareOf(0.1)).toBeCloseTo(shareOf(1000) - shareOf(100));
    const axis = waitAxis(EDGES);
    expect(axis.share(axis.length - 1)).toBeLessThanOrEqual(1);
    for (let index = 1; index < axis.length; index += 1) expect(axis.share(index)).toBeGreaterThan(axis.share(index - 1));
    const half = axis.nearest(shareOf(524.288))!;
    expect(axis.at(half)).toBe("within 524 ms");
    expect([axis.nearest(-0.5), axis.nearest(1.5), axis.nearest(0)]).toEqual([null, null, 0]);
  });

  it("add up to a hundred, with a step where many end together", () => {
    const all = cumulated(EDGES, named.distribution);
    expect(all).toHaveLength(waitAxis(EDGES).length);
    expect([all[0], all[1], all[bucketOf(100)], all[all.length - 1]]).toEqual([65, 65, 70, 100]);
    const at = bucketOf(500) + 1;
    expect([all[at - 1], all[at]]).toEqual([70, 100]);
    expect(cumulated(EDGES, counts()).every((value) => value === null)).toBe(true);
  });

  it("have a step where a good part waited alike, and only there", () => {
    const step = stepOf(EDGES, named.distribution)!;
    expect(step.share).toBeCloseTo(0.3);
    expect(Math.abs(step.ms - 500)).toBeLessThan(60);
    // Two buckets side by side are one step; a gentle slope, quick answers and a few requests are none.
    expect(stepOf(EDGES, counts([0.05, 50], [500, 10], [530, 10]))?.share).toBeCloseTo(20 / 70);
    const slope: [number, number][] = EDGES.slice(0, 60).map((edge) => [edge * 0.99, 10]);
    expect(stepOf(EDGES, counts(...slope))).toBeNull();
    expect(stepOf(EDGES, counts([0.05, 50], [30, 50]))).toBeNull();
    expect(stepOf(EDGES, counts([0.05, 3], [500, 3]))).toBeNull();
    expect(stepOf(EDGES, counts([0.05, 97], [500, 3]))).toBeNull();
  });

  it("are told in words", () => {
    expect([waited(null), waited(0.064), waited(4.26), waited(490.4), waited(1234), waited(15_000)])
      .toEqual(["–", "0.1 ms", "4.3 ms", "490 ms", "1.23 s", "15.0 s"]);
    expect([percent(0), percent(0.001), percent(0.5), percent(0.999), percent(1)]).toEqual(["0 %", "< 1 %", "50 %", "> 99 %", "100 %"]);
    expect([rateText(0.04), rateText(12.3), rateText(4567.8)]).toEqual(["0.0", "12", "4,568"]);
    expect([shownName("hall"), shownName("(other)")]).toEqual(["hall", "Other addresses"]);
    expect(distributionWords(EDGES, named)).toBe(
      "Made already: half within 0.1 ms, 95 of 100 within 490 ms, 99 within 490 ms; 30 % waited about 490 ms, all alike: a step; " +
      "not made yet: half within 180 ms, 95 of 100 within 210 ms");
    expect(factsOf(named)).toEqual([
      ["Asked for", "10 playlists, 1 header, 99 segments"],
      ["Came from", "55 % kept here, 27 % on their way already, 14 % fetched for it, 5 % kept here, asked about meanwhile"],
      ["Not made yet", "10 playlists: half of them came within 180 ms, 95 of 100 within 210 ms"],
    ]);
  });

  it("are drawn from where somebody asked, a minute at least", () => {
    const quiet = new Array<number>(61).fill(0);
    expect([quietWindows(quiet), quietWindows([...quiet.slice(0, 60), 1]), quietWindows([]), quietWindows([1, ...quiet])]).toEqual([55, 55, 0, 0]);
    expect(quietWindows([...quiet.slice(0, 20), 1, ...quiet.slice(21)])).toBe(20);
  });

  it("are hits where nothing had to be fetched", () => {
    expect(hitShare(named)).toBeCloseTo(65 / 110);
    expect(hitShare({ requests: 4, by_source: { packaged: 1, disk: 1, joined: 1, miss: 1 } })).toBe(0.5);
    expect(hitShare({ requests: 0, by_source: {} })).toBeNull();
  });
});

describe("a chart", () => {
  it("has the newest moment at its right edge", () => {
    const axis = timeAxis(3, 5, 10, (index) => index);
    expect([0, 1, 2].map((index) => axis.share(index))).toEqual([0.5, 0.75, 1]);
    expect([axis.nearest(1), axis.nearest(0.5), axis.nearest(0.2)]).toEqual([2, 0, null]);
    expect([axis.range, axis.ticks[0]!.words]).toEqual(["50 s", "−50 s"]);
  });

  it("shows a lone value as a dot", () => {
    expect(runPath(["1.0,2.0"])).toBe("M1.0,2.0h0");
    expect(runPath(["1.0,2.0", "3.0,4.0"])).toBe("M1.0,2.0L3.0,4.0");
  });
});
