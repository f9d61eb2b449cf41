import { describe, expect, it } from "vitest";
import { Refresh, displayMs, intervalOf } from "./refresh";

describe("the time from one refresh to the next", () => {
  it("is the middle of the page's frames", () => {
    const frames = [0, 16.7, 33.3, 50, 100, 116.7, 133.3];
    expect(intervalOf(frames)).toBeCloseTo(16.7, 1);
    expect(intervalOf([0, 6.9, 13.9, 20.8])).toBeCloseTo(6.95, 1);
  });

  it("is not that of a page that is held up, or that has no frames", () => {
    expect(intervalOf([0, 1000, 2000])).toBeNull();
    expect(intervalOf([5])).toBeNull();
    expect(intervalOf([0, 0, 0])).toBeNull();
  });

  it("puts what is drawn on the next refresh, and what is drawn late on the one after", () => {
    const refresh = new Refresh();
    expect(refresh.shownMs(1000, 1002)).toBeCloseTo(1016.67, 1);
    expect(refresh.shownMs(1000, 1020)).toBeCloseTo(1033.33, 1);
    expect(refresh.shownMs(1000, 999)).toBeCloseTo(1016.67, 1);
  });
});

describe("the time that a video's picture is shown", () => {
  it("is the browser's where that can be", () => {
    expect(displayMs(1012, 1000)).toBe(1012);
    for (const wrong of [undefined, 990, 1500, NaN]) expect(displayMs(wrong, 1000)).toBe(1000);
  });
});
