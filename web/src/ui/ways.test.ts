import { describe, expect, it } from "vitest";
import { publishLines, watchLines, waysOf } from "./ways";

const texts = (lines: readonly (readonly [string, string])[]): string[] => lines.map(([, text]) => text);

describe("the lines for other programs", () => {
  it("publish by the protocols that the server takes", () => {
    expect(publishLines([{ protocol: "webrtc", port: 8554 }], "h")).toEqual([]);
    expect(texts(publishLines([{ protocol: "srtla", port: 5000 }, { protocol: "srt", port: 8890 }], "h"))).toEqual([
      "srt://h:8890?streamid=publish:NAME:KEY&latency=120000",
      'ffmpeg -re -i FILE -c copy -f mpegts "srt://h:8890?streamid=publish:NAME:KEY"',
      "… ! mpegtsmux ! srtsink uri=srt://h:8890 streamid=publish:NAME:KEY latency=120",
      "srtla://h:5000",
    ]);
    expect(texts(publishLines([{ protocol: "rtmp", port: 1935 }, { protocol: "rtmps", port: 1936 }], "h.example", "hall"))).toEqual([
      "rtmp://h.example/live",
      "hall?key=KEY",
      'ffmpeg -re -i FILE -c copy -f flv "rtmp://h.example/live/hall?key=KEY"',
      '… ! flvmux streamable=true ! rtmp2sink location="rtmp://h.example/live/hall?key=KEY"',
      "rtmps://h.example:1936/live",
      "hall?key=KEY",
      'ffmpeg -re -i FILE -c copy -f flv "rtmps://h.example:1936/live/hall?key=KEY"',
      '… ! flvmux streamable=true ! rtmp2sink location="rtmps://h.example:1936/live/hall?key=KEY"',
    ]);
    expect(publishLines([{ protocol: "rtmps", port: 443 }], "h")[0]![1]).toBe("rtmps://h/live");
    expect(publishLines([{ protocol: "rtsp", port: 8554 }], "h")).toEqual([
      ["Any file, with FFmpeg (RTSP)", 'ffmpeg -re -i FILE -c copy -f rtsp "rtsp://h:8554/live/NAME?key=KEY"'],
      ["GStreamer (RTSP)", '… ! rtspclientsink location="rtsp://h:8554/live/NAME?key=KEY"'],
    ]);
  });

  it("watch by those that give streams, which RTMP does not", () => {
    const doors = [{ protocol: "rtmp", port: 1935 }, { protocol: "rtsp", port: 8554 }, { protocol: "srt", port: 8890 }];
    expect(texts(watchLines(doors, "h", "hall"))).toEqual([
      'ffplay "srt://h:8890?streamid=read:hall"',
      'vlc "srt://h:8890?streamid=read:hall"',
      "gst-launch-1.0 srtsrc uri=srt://h:8890 streamid=read:hall ! …",
      'ffplay "rtsp://h:8554/live/hall"',
      'vlc "rtsp://h:8554/live/hall"',
      'gst-launch-1.0 rtspsrc location="rtsp://h:8554/live/hall" latency=100 ! …',
    ]);
  });

  it("are there over HTTP in any case", () => {
    const { publish, watch } = waysOf([], "h", "http://h:8080/", "hall");
    expect(texts(publish)[0]).toBe("ffmpeg -re -i FILE -c copy -f mpegts http://h:8080/live/hall.ts");
    expect(texts(watch)).toContain("http://h:8080/live/hall/index.m3u8");
  });
});
