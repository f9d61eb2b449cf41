import { describe, expect, it } from "vitest";
import { AUDIO_PID, TsBuilder, VIDEO_PID, ended, pes, picture } from "../testing/ts_builder";
import { concat } from "./bits";
import { type AudioUnit, Feed, Timeline, type VideoConfig, type VideoUnit, stampDistance } from "./feed";

const WRAP = 2 ** 33;

function feed(): { feed: Feed; video: VideoUnit[]; audio: AudioUnit[]; configs: VideoConfig[] } {
  const video: VideoUnit[] = [];
  const audio: AudioUnit[] = [];
  const configs: VideoConfig[] = [];
  const made = new Feed({
    tracks: () => undefined,
    videoConfig: (c) => configs.push(c),
    video: (u) => video.push(u),
    audio: (u) => audio.push(u),
  });
  return { feed: made, video, audio, configs };
}

const show = (b: TsBuilder, dts: number, key: boolean, discontinuity = false, sets?: string): Uint8Array =>
  b.packets(VIDEO_PID, [pes(0xe0, dts % WRAP, dts % WRAP, ended(picture(key, 1, 300, sets)), true)], { random: key, discontinuity });

describe("Timeline", () => {
  it("goes on over the wrap of 33 bits", () => {
    expect(stampDistance(10, WRAP - 10)).toBe(20);
    const line = new Timeline();
    const a = line.place(1, WRAP - 3600);
    const b = line.place(1, 0);
    expect([b.us - a.us, b.jumped]).toEqual([40_000, false]);
  });

  it("lays a jump's other side right behind, either way, for both tracks alike", () => {
    for (const jump of [900_000_000, -900_000]) {
      const line = new Timeline();
      line.place(1, 2_000_000);
      line.place(2, 2_001_800);
      const cut = line.place(1, 2_003_600 + jump);
      expect(cut.jumped).toBe(true);
      const sound = line.place(2, 2_005_400 + jump);
      expect(sound.jumped).toBe(true);
      expect(sound.us - cut.us).toBe(20_000);
      expect(line.place(1, 2_007_200 + jump)).toMatchObject({ jumped: false, us: cut.us + 40_000 });
    }
  });

  it("keeps a short gap as it is", () => {
    const line = new Timeline();
    const a = line.place(1, 0);
    expect(line.place(1, 45_000)).toEqual({ us: a.us + 500_000, jumped: false, gap: false });
  });

  it("keeps a long gap of pictures as it is where sound goes on, and tells it from a jump where none does", () => {
    const line = new Timeline();
    const first = line.place(1, 0);
    for (let at = 0; at <= 720_000; at += 1920) line.place(2, at);
    expect(line.place(1, 720_000)).toEqual({ us: first.us + 8_000_000, jumped: false, gap: false });
    const silent = new Timeline();
    silent.place(1, 0);
    expect(silent.place(1, 720_000)).toMatchObject({ jumped: true, gap: true });
    expect(silent.place(1, 720_000 + 90_000 * 61)).toMatchObject({ jumped: true, gap: false });
    expect(silent.place(1, 0)).toMatchObject({ jumped: true, gap: false });
  });
});

describe("Feed", () => {
  it("begins with a key frame and its parameter sets", () => {
    const b = new TsBuilder();
    const { feed: f, video, configs } = feed();
    f.push(b.tables());
    f.push(show(b, 3600, false));
    expect(video).toHaveLength(0);
    f.push(show(b, 7200, true));
    f.push(show(b, 10_800, false));
    expect(video.map((u) => [u.key, u.reset])).toEqual([[true, true], [false, false]]);
    expect(video[1]!.dtsUs - video[0]!.dtsUs).toBe(40_000);
    expect(configs.map((c) => c.parameters.width)).toEqual([1280]);
  });

  it("waits for a key frame after a marked discontinuity, and starts anew there", () => {
    const b = new TsBuilder();
    const { feed: f, video } = feed();
    f.push(b.tables());
    for (let n = 0; n < 5; n++) f.push(show(b, n * 3600, n === 0));
    f.push(show(b, 5_000_000, false, true));
    f.push(show(b, 5_003_600, true));
    expect(video.map((u) => u.reset)).toEqual([true, false, false, false, false, true]);
    expect(video[5]!.dtsUs).toBeGreaterThan(video[4]!.dtsUs);
    expect(video[5]!.dtsUs - video[4]!.dtsUs).toBeLessThan(100_000);
  });

  it("begins a video on another PID with a key frame, on the same line of time", () => {
    const b = new TsBuilder();
    const { feed: f, video, audio } = feed();
    const at = (pid: number, n: number, key: boolean): Uint8Array =>
      b.packets(pid, [pes(0xe0, n * 3600, n * 3600, ended(picture(key, 1, 300)), true)], { random: key });
    const sound = (pid: number, n: number): Uint8Array =>
      b.packets(pid, [pes(0xbd, n * 3600, n * 3600, new Uint8Array([0x7f, 0xe0, 3, 0xfc, 0xff, 0xfe]), true)]);
    f.push(b.tables("opus"));
    for (let n = 0; n < 5; n++) f.push(concat([at(VIDEO_PID, n, n === 0), sound(AUDIO_PID, n)]));
    f.push(b.tables("opus", { video: 0x200, sound: 0x201, version: 1 }));
    // Pictures that refer to others, which were never on this PID.
    for (let n = 5; n < 8; n++) f.push(concat([at(0x200, n, false), sound(0x201, n)]));
    for (let n = 8; n < 11; n++) f.push(concat([at(0x200, n, n === 8), sound(0x201, n)]));
    const line = (units: readonly { ptsUs: number }[]): number[] => units.map((u) => (u.ptsUs - units[0]!.ptsUs) / 40_000);
    expect(line(video)).toEqual([0, 1, 2, 3, 4, 8, 9, 10]);
    expect(video.map((u) => u.reset)).toEqual([true, false, false, false, false, true, false, false]);
    expect(line(audio)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(audio.map((u) => u.reset).filter(Boolean)).toHaveLength(2);
    // The same tables once more change nothing.
    f.push(b.tables("opus", { video: 0x200, sound: 0x201, version: 1 }));
    f.push(at(0x200, 11, false));
    expect(video.at(-1)!.reset).toBe(false);
  });

  it("tells of changed parameter sets before the picture that needs them", () => {
    const b = new TsBuilder();
    const { feed: f, configs } = feed();
    f.push(b.tables());
    f.push(show(b, 0, true));
    f.push(show(b, 3600, true, false, "67640028acd940780227e5c05a808080a0000003002000000641e30632c0 68ebe3cb22c0"));
    f.push(show(b, 7200, true, false, "67640028acd940780227e5c05a808080a0000003002000000641e30632c0 68ebe3cb22c0"));
    expect(configs.map((c) => c.parameters.width)).toEqual([1280, 1920]);
  });

  it("gives each Opus packet of a PES its time", () => {
    const b = new TsBuilder();
    const { feed: f, audio } = feed();
    f.push(b.tables("opus"));
    const two = new Uint8Array([0x7f, 0xe0, 2, 0xfc, 1, 0x7f, 0xe0, 2, 0xfc, 2]);
    f.push(b.packets(AUDIO_PID, [pes(0xbd, 900, 900, two, true)]));
    expect(audio.map((u) => [u.ptsUs - audio[0]!.ptsUs, u.samples])).toEqual([[0, 960], [20_000, 960]]);
  });
});
