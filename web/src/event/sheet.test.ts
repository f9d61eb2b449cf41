import { describe, expect, it } from "vitest";
import { baseOf, eventAddress, expiresMs, firstExpiry, streamAddresses, unsignedLinks, vlcName } from "./sheet";

describe("the addresses on a sheet", () => {
  it("begin with an address that viewers reach", () => {
    expect(baseOf("https://live.example.org")).toBe("https://live.example.org/");
    expect(baseOf(" http://10.0.0.5:8080/ ")).toBe("http://10.0.0.5:8080/");
    expect(baseOf("live.example.org/tv")).toBe("https://live.example.org/tv/");
    expect(baseOf("http://[2001:db8::1]:8080")).toBe("http://[2001:db8::1]:8080/");
    expect(baseOf("http://a/tv/?x=1#y")).toBe("http://a/tv/");
    for (const wrong of ["", "  ", "ftp://a/", "javascript://a/%0aalert(1)", "http://", "not an address"]) expect(baseOf(wrong)).toBeNull();
  });

  it("are those of the pages and playlists, with what lets viewers in", () => {
    expect(eventAddress("http://a/tv/", "the finals", null)).toBe("http://a/tv/event/the%20finals");
    expect(eventAddress("http://a/", "finals", "expires=1&token=x")).toBe("http://a/event/finals?expires=1&token=x");
    expect(streamAddresses("http://a/", "hall", "token=x", "hall")).toEqual({
      page: "http://a/watch/hall?token=x", vlc: "http://a/live/hall.ts?token=x",
      hls: "http://a/live/hall/index.m3u8?token=x", dash: "http://a/live/hall/manifest.mpd?token=x",
    });
  });

  it("name the best version of a group, where players want one stream", () => {
    expect(streamAddresses("http://a/", "hall", null, "hall-720")).toMatchObject({
      page: "http://a/watch/hall", vlc: "http://a/live/hall-720.ts", hls: "http://a/live/hall/index.m3u8",
    });
    expect(streamAddresses("http://a/", "hall", null, null).vlc).toBeNull();
  });

  it("leave out the one for VLC where the stream may be a group", () => {
    const unseen = { name: "hall", group: false, live: false, sound: null, picture: null };
    expect(vlcName(unseen, null)).toBeNull();
    expect(vlcName({ ...unseen, live: true }, null)).toBe("hall");
    expect(vlcName({ ...unseen, sound: true, picture: false }, null)).toBe("hall");
    expect(vlcName({ ...unseen, group: true }, null)).toBeNull();
    expect(vlcName({ ...unseen, group: true }, "hall-720p50")).toBe("hall-720p50");
  });

  it("are good until the first of them is not", () => {
    expect(expiresMs("expires=1790000000&token=x")).toBe(1_790_000_000_000);
    for (const none of [null, "", "token=x", "expires=soon", "expires=-5", "expires="]) expect(expiresMs(none)).toBeNull();
    expect(firstExpiry([null, "expires=20", "expires=10&token=x"])).toBe(10_000);
    expect(firstExpiry([null, "token=x"])).toBeNull();
  });

  it("that need a signature and have none are told, with what signs them", () => {
    const open = { name: "open", needs_link: false, access: null };
    const hall = { name: "main hall", needs_link: true, access: null };
    const told = unsignedLinks("http://a/tv/", "finals", { needs_link: true, access: null }, [open, hall]);
    expect(told?.text).toContain("The links to the event, main hall on this sheet are not signed");
    expect(told?.commands).toEqual([
      "glassline sign http://a/tv/event/finals --key-file viewer.key --for 36h",
      "glassline sign http://a/tv/watch/main%20hall --key-file viewer.key --for 36h",
    ]);
    // A stream that alone has a viewer key, in an open event.
    expect(unsignedLinks("http://a/", "finals", { needs_link: false, access: null }, [open, hall])?.commands).toHaveLength(1);
    // Signed for an operator, or not needed, or an earlier server that does not say.
    const signed = { needs_link: true, access: "expires=1&token=x" };
    expect(unsignedLinks("http://a/", "finals", signed, [open, { name: "hall", ...signed }])).toBeNull();
    expect(unsignedLinks("http://a/", "finals", { access: null }, [{ name: "hall", access: null }])).toBeNull();
    expect(unsignedLinks("http://a/", "finals", null, [])).toBeNull();
  });
});
