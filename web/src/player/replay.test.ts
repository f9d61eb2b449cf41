import { describe, expect, it } from "vitest";
import { instantOf, localOf, replayOf, replayPath, replaySearch } from "./replay";

describe("a time of what was recorded", () => {
  it("is read from the page's address", () => {
    const of = (query: string) => replayOf(new URLSearchParams(query));
    expect(of("")).toBeNull();
    expect(of("to=-1m")).toBeNull();
    expect(of("from=-5m")).toEqual({ from: "-5m", to: null });
    expect(of("from=1&to=2")).toEqual({ from: "1", to: "2" });
  });

  it("is put into the address, and what else is there stays", () => {
    const replay = { from: "2026-11-30T02:25:52Z", to: null };
    const search = replaySearch("?token=a%2Fb&from=-1m&to=1&engine=hls", replay);
    expect(search).toBe("?token=a%2Fb&engine=hls&from=2026-11-30T02%3A25%3A52Z");
    expect(replaySearch(search, null)).toBe("?token=a%2Fb&engine=hls");
    expect(replaySearch("?from=1", null)).toBe("");
  });

  it("has a playlist that carries the viewer's token", () => {
    const path = replayPath("hall", "?expires=7&token=x&from=-9m", { from: "-5m", to: "-1m" });
    expect(path).toBe("/live/hall/index.m3u8?expires=7&token=x&from=-5m&to=-1m");
  });

  it("is given by the viewer's own clock", () => {
    const ms = Date.UTC(2026, 10, 30, 2, 25, 52);
    expect(instantOf(localOf(ms))).toBe("2026-11-30T02:25:52.000Z");
    expect(instantOf("")).toBeNull();
    expect(instantOf("soon")).toBeNull();
  });
});
