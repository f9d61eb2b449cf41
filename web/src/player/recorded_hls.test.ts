import { describe, expect, it } from "vitest";
import { behindFailed } from "./recorded_hls";

describe("a segment that cannot be had", () => {
  it("is gone past, some times in a row", () => {
    expect(behindFailed({ end: 12 }, "fragLoadError", 0)).toBeCloseTo(12.01);
    expect(behindFailed({ end: 12 }, "fragLoadTimeOut", 4)).toBeCloseTo(12.01);
    expect(behindFailed({ end: 12 }, "fragLoadError", 5)).toBeNull();
  });

  it("is no playlist", () => {
    expect(behindFailed(null, "fragLoadError", 0)).toBeNull();
    expect(behindFailed({ end: 12 }, "levelLoadError", 0)).toBeNull();
  });
});
