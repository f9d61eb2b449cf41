import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { TsBuilder, VIDEO_PID, ended, hex, pes } from "../testing/ts_builder";
import { Feed, type VideoUnit } from "./feed";
import { greyIdr } from "./grey_idr";
import { inspect, parseSps } from "./h264";

const PICTURES = {
  "baseline 1280x720": ["6742c020d9005005bb016a020202800000030080000032078c1924", 1280, 720, 1.5],
  "high 1920x1080": ["67640028acd940780227e5c05a808080a0000003002000000641e30632c0", 1920, 1080, 1.5],
  "high 4:2:2 642x362": ["677a001ebcd940a42fe227c05a808080a0000003002000000781e2c5b2c0", 642, 362, 2],
} as const;

describe("greyIdr", () => {
  for (const [name, [sps, width, height, samples]] of Object.entries(PICTURES)) {
    const data = greyIdr(hex(sps), parseSps(hex(sps))!)!;

    it(`is an IDR access unit: ${name}`, () => {
      expect(inspect(data)).toMatchObject({ idr: true, key: true, slices: 1 });
    });

    it.skipIf(spawnSync("ffmpeg", ["-version"]).status !== 0)(`is decoded as grey all over: ${name}`, () => {
      const decoded = spawnSync("ffmpeg", ["-v", "warning", "-f", "h264", "-i", "-", "-f", "rawvideo", "-"], {
        input: data, maxBuffer: 1 << 26,
      });
      expect(decoded.stderr.toString()).toBe("");
      expect(decoded.stdout.length).toBe(width * height * samples);
      expect(decoded.stdout.every((sample) => sample === 128)).toBe(true);
    });
  }
});

describe("Feed with intra refresh", () => {
  it("puts a grey IDR picture before a recovery point that it starts at, and none before the next", () => {
    const recovery = hex(`00000001${PICTURES["baseline 1280x720"][0]}0000000168cb8cb2` + "000000010606018080" + "0000000141ff55");
    const video: VideoUnit[] = [];
    const ignore = (): void => undefined;
    const feed = new Feed({ tracks: ignore, videoConfig: ignore, audio: ignore, video: (u) => video.push(u) });
    const builder = new TsBuilder();
    feed.push(builder.tables());
    for (const dts of [0, 3600]) feed.push(builder.packets(VIDEO_PID, [pes(0xe0, dts, dts, ended(recovery), true)]));
    expect(video.map((u) => [u.idr, u.reset])).toEqual([[true, true], [false, false], [false, false]]);
    expect(video[1]!.dtsUs).toBeGreaterThan(video[0]!.dtsUs);
  });

  it("counts down to the first picture that is right, over the wrap of the stamps", () => {
    const sets = `00000001${PICTURES["baseline 1280x720"][0]}0000000168cb8cb2`;
    // ue(4), exact, no broken link, no slice groups, the payload's end.
    const recovery = hex(`${sets}00000001060602 2c4080`.replace(" ", "") + "0000000141ff55");
    const video: VideoUnit[] = [];
    const ignore = (): void => undefined;
    const feed = new Feed({ tracks: ignore, videoConfig: ignore, audio: ignore, video: (u) => video.push(u) });
    const builder = new TsBuilder();
    feed.push(builder.tables());
    for (let number = 0; number < 9; number++) {
      const dts = (2 ** 33 - 9000 + number * 3600) % 2 ** 33;
      const data = number === 0 || number === 3 ? recovery : number === 7 ? hex(`${sets}00000001658855`) : hex("0000000141ff55");
      feed.push(builder.packets(VIDEO_PID, [pes(0xe0, dts, dts, ended(data), true)]));
    }
    // The grey picture in front; a recovery point on the way changes nothing, a key frame has nothing to settle.
    expect(video.map((u) => u.settlingFrames)).toEqual([5, 4, 3, 2, 1, 0, 0, 0, 0, 0]);
    const steps = video.slice(1).map((u, at) => (at === 0 ? 40_000 : u.ptsUs - video[at]!.ptsUs));
    expect(steps.every((step) => step === 40_000)).toBe(true);
    expect(video.filter((u) => u.reset)).toHaveLength(1);
  });
});
