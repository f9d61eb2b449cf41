import { afterEach, describe, expect, it, vi } from "vitest";
import { estimateOffset } from "./clock";

describe("timerStepMs", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.resetModules();
  });

  /** The step that is found where the clock shows `stepMs` at a time, looked at each 3 µs. */
  async function found(stepMs: number): Promise<number> {
    let us = 400;
    vi.spyOn(performance, "now").mockImplementation(() => Math.floor((us += 3) / 1000 / stepMs) * stepMs);
    const { timerStepMs } = await import("./clock");
    expect(timerStepMs()).toBe(timerStepMs());
    return timerStepMs();
  }

  it("is what the browser counts in", async () => {
    expect(await found(1)).toBe(1);
    vi.resetModules();
    expect(await found(0.1)).toBeCloseTo(0.1);
  });

  it("is large where the browser hides the time", async () => {
    expect(await found(1e9)).toBe(20);
  });
});

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
