import { describe, expect, it } from "vitest";
import { playlistPath } from "../api";
import type { Track } from "../media/ts";
import { choiceOf, playsByPlaylist, searchOf } from "./way";

const able = { direct: true, nativeHls: false };
const choice = (query: string, can = able) => choiceOf(new URLSearchParams(query), can);

describe("how to watch", () => {
  it("is what the address says", () => {
    expect(choice("?engine=hls")).toEqual({ way: "hls", engine: null, delayS: null });
    expect(choice("?engine=dash&delay=0.2")).toEqual({ way: "dash", engine: null, delayS: 0.2 });
    expect(choice("?engine=mse")).toEqual({ way: "direct", engine: "mse", delayS: null });
    expect(choice("")).toEqual({ way: "direct", engine: null, delayS: null });
  });

  it("is never a delay that makes no sense", () => {
    for (const delay of ["0", "-1", "x", "1e9", ""]) expect(choice(`?engine=dash&delay=${delay}`).delayS).toBeNull();
  });

  it("is the browser's own HLS where that alone works", () => {
    expect(choice("", { direct: false, nativeHls: true }).way).toBe("hls");
    expect(choice("", { direct: false, nativeHls: false }).way).toBe("direct");
    expect(choice("", { direct: true, nativeHls: true }).way).toBe("direct");
  });

  it("is kept in the address, and all else there stays as it was", () => {
    const search = "?popout=1&token=a%2Bb-_&expires=9&engine=mse&delay=3";
    expect(searchOf(search, { way: "hls", engine: null, delayS: null })).toBe("?popout=1&token=a%2Bb-_&expires=9&engine=hls");
    expect(searchOf(search, { way: "dash", engine: null, delayS: 0.4 })).toBe("?popout=1&token=a%2Bb-_&expires=9&engine=dash&delay=0.4");
    expect(searchOf("?engine=hls", { way: "direct", engine: null, delayS: 1 })).toBe("");
    expect(searchOf("", { way: "direct", engine: "mse", delayS: null })).toBe("?engine=mse");
  });

  it("is the playlist where the page does not read the pictures and the browser decodes them", () => {
    const track = (kind: Track["kind"], codec: Track["codec"], name: string): Track => ({ pid: 1, kind, codec, name, channels: 0 });
    const sound = track("audio", "aac", "AAC");
    const plays = (...names: string[]): boolean =>
      playsByPlaylist([...names.map((name) => track("video", name === "H.264" ? "h264" : name === "AV1" ? "av1" : "unsupported", name)), sound], (type) => type.includes("hvc1"));
    expect([plays("H.265"), plays("AV1"), plays("MPEG-2 video"), plays("H.264"), plays()]).toEqual([true, false, false, false, false]);
    expect([plays("H.264", "H.265"), plays("MPEG-2 video", "H.265")]).toEqual([false, true]);
  });

  it("asks for playlists with the page's token", () => {
    expect(playlistPath("a b", "?engine=hls&expires=9&token=x", "hls")).toBe("/live/a%20b/index.m3u8?expires=9&token=x");
    expect(playlistPath("a", "?engine=dash", "dash")).toBe("/live/a/manifest.mpd");
  });
});
