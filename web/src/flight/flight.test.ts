import { describe, expect, it } from "vitest";
import { type Arrival, BURST_EDGES_BYTES, GAP_EDGES_MS, summarize } from "./flight";
import { bits, bytes, seconds, things } from "./units";

/** `count` arrivals of `size` bytes, `everyMs` apart. */
function even(count: number, size: number, everyMs: number): Arrival[] {
  return Array.from({ length: count }, (_, i) => ({ ms: 1000 + i * everyMs, bytes: size }));
}

describe("a flight", () => {
  it("of evenly spaced packets is smooth", () => {
    const summary = summarize(even(2001, 1250, 5), 1);
    expect(summary.rateBps).toBeCloseTo(2_001_000, -3);
    expect(summary.burstBytes).toEqual({ p50: 1250, p99: 1250, max: 1250 });
    expect(summary.gapMs!.p50).toBe(5);
    expect(summary.verdict).toBe(
      "Smooth: no more than 1.25 kB (1 packet) come at once. On a 5 Mb/s line at most 1.25 kB ever wait, which any buffer holds.");
    expect(summary.windows.map(({ ms, rate }) => [ms, rate.max])).toEqual([[1, 10e6], [10, 2e6], [100, 2e6]]);
    expect(summary.windows[0]!.rate.p50, "four of five milliseconds are empty").toBe(0);
    expect(summary.lines[0]!.bps).toBe(5e6);
  });

  it("of whole pictures is bursty, and says what a line must hold", () => {
    // 25 kB each 40 ms: 5 Mb/s. The pieces of a picture are closer than the gap that ends a burst.
    const arrivals = even(100, 12_500, 40).flatMap((a) => [a, { ms: a.ms + 0.4, bytes: 12_500 }]);
    const summary = summarize(arrivals, 1);
    expect(summary.burstBytes!.max).toBe(25_000);
    const line = summary.lines.find(({ bps }) => bps === 20e6)!;
    expect(line.queueBytes).toBe(24_000);
    expect(summary.verdict).toMatch(/^Bursts of up to 25 kB \(18 packets\)\. On a 20 Mb\/s line up to 24 kB must wait, for 9\.6 ms/);
    expect(summary.burstBins.find(({ share }) => share > 0)).toMatchObject({ share: 1 });
    const gap = summary.gapBins.filter(({ share }) => share > 0);
    expect(gap).toHaveLength(1);
    expect(gap[0]!.from <= 39.6 && 39.6 < gap[0]!.to).toBe(true);
    expect(summary.detail).toHaveLength(500);
    expect(summary.detail.filter((sum) => sum > 0)).toHaveLength(13);
  });

  it("of nothing says so", () => {
    const summary = summarize([], 1);
    expect([summary.rateBps, summary.burstBytes, summary.gapMs]).toEqual([null, null, null]);
    expect(summary.verdict).toBe("Too little came to say anything.");
    expect(summarize(even(1, 9, 1), 1).verdict).toBe("Too little came to say anything.");
  });

  it("has the axes of the command", () => {
    expect([BURST_EDGES_BYTES[0], Math.round(BURST_EDGES_BYTES[50]!)]).toEqual([100, 10_000_000]);
    expect([GAP_EDGES_MS[0], Math.round(GAP_EDGES_MS[60]!)]).toEqual([0.01, 10_000]);
  });
});

describe("its quantities", () => {
  it("are those of the command", () => {
    expect([bytes(0), bytes(1448), bytes(181_000), bytes(999_600)]).toEqual(["0 B", "1.45 kB", "181 kB", "1 MB"]);
    expect([bits(3.1e6), bits(10e9)]).toEqual(["3.1 Mb/s", "10 Gb/s"]);
    expect([seconds(0), seconds(0.0001), seconds(0.02), seconds(12.34)]).toEqual(["0 s", "100 µs", "20 ms", "12.3 s"]);
    expect([things(1, "packet"), things(2000, "packet")]).toEqual(["1 packet", "2,000 packets"]);
  });
});
