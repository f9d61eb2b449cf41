import { describe, expect, it } from "vitest";
import { endOf, isYoung, lengthText, recordingsOf, whenText } from "./recordings";

describe("the list of recordings", () => {
  it("has the stream's own, the newest first", () => {
    const one = (name: string, from: string | null) => ({ name, session: "20261130T022552.123Z", from, to: null, bytes: 0, state: "complete" });
    const all = [one("hall", "2026-11-29T10:00:00Z"), one("other", "2026-11-30T10:00:00Z"), one("hall", "2026-11-30T09:00:00Z"), one("hall", null)];
    expect(recordingsOf(all, "hall").map(({ from }) => from)).toEqual(["2026-11-30T09:00:00Z", "2026-11-29T10:00:00Z"]);
  });

  it("asks for no longer time than a playlist has", () => {
    const from = "2026-11-29T10:00:00Z";
    expect(endOf({ from, to: "2026-11-30T10:00:00Z" })).toBe("2026-11-30T10:00:00Z");
    expect(endOf({ from, to: "2026-11-30T16:00:00Z" })).toBeNull();
  });

  it("knows one that has just begun", () => {
    const [from, to] = ["2026-11-30T10:00:00Z", "2026-11-30T10:00:14Z"];
    expect([isYoung({ from, to, state: "recording" }), isYoung({ from, to, state: "complete" })]).toEqual([true, false]);
    expect(isYoung({ from, to: "2026-11-30T10:00:16Z", state: "recording" })).toBe(false);
  });

  it("tells lengths and times for people", () => {
    expect([5.4, 65, 3600, 7384].map(lengthText)).toEqual(["5 s", "1 min 5 s", "1 h 0 min", "2 h 3 min"]);
    expect(whenText("2026-11-30T23:30:00Z", "en-GB", "Europe/Berlin")).toBe("1 Dec 2026, 00:30:00");
  });
});
