import { describe, expect, it } from "vitest";
import type { Track } from "../media/ts";
import { browserName, codecsLack, lackWords, namesPictures, pictureLack, undecoded } from "./lack";

const track = (kind: Track["kind"], name: string): Track => ({ pid: 1, kind, codec: "unsupported", name, channels: 0 });

describe("what a browser lacks", () => {
  it("is said with the browser's name", () => {
    for (const [agent, name] of [
      ["Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0", "Firefox 153"],
      ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36", "Chrome 156"],
      ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15", "WebKit 26"],
      ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15", "Safari 26"],
      ["curl/8", "This browser"],
    ] as const) expect(browserName(agent)).toBe(name);
  });

  it("names the codec of the pictures, or of sound that is alone", () => {
    expect(lackWords([track("video", "H.265"), track("audio", "AAC")], "Firefox 153")).toBe(
      "The stream's pictures are H.265, which Firefox 153 does not play here.");
    expect(lackWords([track("audio", "AC-3"), track("audio", "S302M")], "Chrome 156")).toBe(
      "The stream's sound is AC-3 and S302M, which Chrome 156 does not play here.");
    expect(lackWords([track("other", "stream type 0x15")], "Chrome 156")).toMatch(/neither pictures nor sound.*stream type 0x15/);
    expect(lackWords([], "Chrome 156")).toMatch(/nothing/);
  });

  it("is found out by what a playlist has in its newest period", () => {
    const sound = '#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS="mp4a.40.2"\naudio.m3u8\n';
    expect(namesPictures(sound)).toBe(false);
    expect(namesPictures(`${sound}#EXT-X-STREAM-INF:BANDWIDTH=2,CODECS="mp4a.40.2,avc1.640020"\nvideo.m3u8\n`)).toBe(true);
    const period = (kind: string): string => `<Period><AdaptationSet id="1" contentType="${kind}"></AdaptationSet></Period>`;
    expect(namesPictures(`<MPD>${period("video")}${period("audio")}</MPD>`)).toBe(false);
    expect(namesPictures(`<MPD>${period("audio")}${period("video")}</MPD>`)).toBe(true);
  });

  it("is what the browser does not decode of it", () => {
    expect(undecoded(["avc1.42C01E", "mp4a.6B"], (codec) => codec.startsWith("avc1"))).toEqual(["mp4a.6B"]);
    expect(undecoded(["avc1.42C01E"], () => true)).toEqual(["avc1.42C01E"]);
  });

  it("names codecs of playlists as people call them", () => {
    expect(codecsLack(["hvc1.1.6.L93.B0", "hvc1.1.6.L60.B0"], "Firefox 153")).toMatch(/^The stream is in H\.265, which Firefox 153/);
    expect(codecsLack(["ac-3"], "Chrome 156")).toMatch(/AC-3/);
    expect(codecsLack([], "Chrome 156")).toMatch(/Chrome 156/);
    expect(pictureLack("avc1.6e0028", "Chrome 156")).toMatch(/H\.264 of 10 bits \(avc1\.6e0028\)/);
  });
});
