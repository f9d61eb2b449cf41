import { afterEach, describe, expect, it, vi } from "vitest";
import { posterPath } from "./api";
import { clipPath, clipState, fromHere, orderClip, refusedText } from "./clip_api";
import { clipLabel, clipText } from "./ui/clip";

const answers = (...all: { status: number; body: unknown }[]): ReturnType<typeof vi.fn> => {
  const fetched = vi.fn(async () => {
    const next = all.shift()!;
    return new Response(JSON.stringify(next.body), { status: next.status });
  });
  vi.stubGlobal("fetch", fetched);
  return fetched;
};

afterEach(() => vi.unstubAllGlobals());

describe("clips", () => {
  const clip = { bytes: 4_200_000, from: "2026-11-30T20:15:00Z", seconds: 30.4, missing: [], lost_objects: 0, poster: "/api/recordings/hall/clips/0.jpg" };
  const ordered = { status: "/tv/api/recordings/hall/clips/0.json", file: "/tv/api/recordings/hall/clips/0.mp4" };

  it("end now, or with the second of the picture that is shown", () => {
    expect(clipPath("hall", { seconds: 30, endMs: null })).toBe("/api/recordings/hall/clip?last=30s");
    expect(clipPath("a b", { seconds: 30, endMs: 1_796_005_552_400 })).toBe("/api/recordings/a%20b/clip?from=1796005523&to=1796005553");
  });

  it("are ordered with the key of the operator, and told with addresses that have it", async () => {
    const fetched = answers({ status: 202, body: { state: "making", ...ordered } }, { status: 202, body: { state: "making" } }, { status: 200, body: { state: "done", clip } });
    expect(await orderClip("hall", { seconds: 30, endMs: null }, "a key")).toEqual(ordered);
    expect(fetched.mock.calls[0]![1]).toMatchObject({ method: "POST", headers: { authorization: "Bearer a key" } });
    expect(await clipState(ordered, "a key")).toEqual({ state: "making" });
    // Behind a proxy that puts the server into a folder the page knows better where that is.
    expect(fetched.mock.calls[1]![0]).toBe("/api/recordings/hall/clips/0.json");
    const state = await clipState(ordered, "a key");
    expect(state).toMatchObject({ state: "done", file: "/api/recordings/hall/clips/0.mp4?key=a+key", poster: "/api/recordings/hall/clips/0.jpg?key=a+key" });
    expect(fromHere("elsewhere")).toBe("elsewhere");
  });

  it("that are not made say why", async () => {
    answers({ status: 403, body: { detail: "Show the key." } }, { status: 404, body: {} }, { status: 200, body: {} });
    expect(await orderClip("hall", { seconds: 30, endMs: null }, "")).toEqual({ state: "failed", words: "Refused. Show the key." });
    expect(await clipState(ordered, "")).toEqual({ state: "failed", words: "Nothing of this stream is recorded in that time." });
    expect(await clipState(ordered, "")).toEqual({ state: "failed", words: "The server answered 200." });
    vi.stubGlobal("fetch", async () => Promise.reject(new Error("no network")));
    expect(await clipState(ordered, "")).toBeNull();
    expect(await orderClip("hall", { seconds: 30, endMs: null }, "")).toEqual({ state: "failed", words: "The server does not answer." });
    expect(refusedText(503, "Other clips are waiting.")).toBe("Other clips are waiting.");
  });

  it("have pictures at addresses that let the viewer in", () => {
    const one = { name: "hall", session: "20261130T022552.123Z" };
    const path = "/live/hall/archive/20261130T022552.123Z/poster.jpg";
    expect(posterPath(one, "")).toBe(path);
    expect(posterPath(one, "?token=a&expires=1&x=2", "2026")).toBe(`${path}?expires=1&token=a&v=2026`);
  });

  it("are told in words", () => {
    expect([clipLabel(true), clipLabel(false)]).toEqual(["Clip the last 30 seconds", "Clip the 30 seconds before this"]);
    expect(clipText(clip, "en-GB", "Europe/Berlin")).toBe("30 s from 21:15:00 · 4.2 MB");
    expect(clipText({ ...clip, lost_objects: 1 }, "en-GB", "UTC")).toContain("something of that time is missing");
  });
});
