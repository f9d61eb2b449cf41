import { describe, expect, it } from "vitest";
import { estimateOffset } from "./clock";

describe("estimateOffset", () => {
  it("believes the exchange with the smallest round trip", () => {
    const best = estimateOffset([
      { sentMs: 0, receivedMs: 100, serverUs: 1_000_090_000 },
      { sentMs: 200, receivedMs: 204, serverUs: 1_000_202_000 },
      { sentMs: 300, receivedMs: 340, serverUs: 1_000_301_000 },
    ]);
    expect(best).toEqual({ offsetUs: 1_000_000_000, roundTripMs: 4 });
  });

  it("is wrong by at most half the round trip", () => {
    for (const there of [0, 5, 10]) {
      const best = estimateOffset([{ sentMs: 50, receivedMs: 60, serverUs: 7_000_000 + (50 + there) * 1000 }])!;
      expect(Math.abs(best.offsetUs - 7_000_000)).toBeLessThanOrEqual(5000);
    }
  });

  it("knows nothing without exchanges", () => {
    expect(estimateOffset([])).toBeNull();
  });
});
