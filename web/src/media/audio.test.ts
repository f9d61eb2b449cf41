import { describe, expect, it } from "vitest";
import { concat } from "./bits";
import { AdtsSplitter, opusConfig, opusSamples, splitOpus } from "./audio";

function adts(payload: number): Uint8Array {
  const length = payload + 7;
  // MPEG-4, no CRC; AAC LC, 48 kHz, stereo.
  const header = [0xff, 0xf1, 0x4c, 0x80 | (length >> 11), (length >> 3) & 255, ((length & 7) << 5) | 0x1f, 0xfc];
  return concat([new Uint8Array(header), new Uint8Array(payload).fill(payload & 255)]);
}

describe("AdtsSplitter", () => {
  it("cuts frames, also those that go over a payload's end", () => {
    const bytes = concat([adts(100), adts(200), adts(50)]);
    const splitter = new AdtsSplitter();
    const frames = [...splitter.split(bytes.subarray(0, 150)), ...splitter.split(bytes.subarray(150))];
    expect(frames.map((f) => f.data.length)).toEqual([100, 200, 50]);
    expect(frames[0]!.config).toMatchObject({ codecString: "mp4a.40.2", sampleRate: 48000, channels: 2 });
    // AudioSpecificConfig: object type 2, rate index 3, 2 channels.
    expect([...frames[0]!.config.description]).toEqual([0x11, 0x90]);
  });

  it("finds the next frame behind foreign bytes", () => {
    const splitter = new AdtsSplitter();
    expect(splitter.split(concat([new Uint8Array([1, 2, 0xff, 3]), adts(64)]))).toHaveLength(1);
  });
});

describe("Opus in TS", () => {
  it("reads sizes in steps of 255 and skips trims", () => {
    const first = new Uint8Array(300).fill(0xfc);
    const payload = concat([
      new Uint8Array([0x7f, 0xf8, 255, 45, 0, 10, 0, 20]), first,
      new Uint8Array([0x7f, 0xe0, 3, 0x78, 1, 2]),
    ]);
    const frames = splitOpus(payload, opusConfig(2));
    expect(frames.map((f) => [f.data.length, f.samples])).toEqual([[300, 960], [3, 960]]);
  });

  it("stops at a packet that is cut", () => {
    expect(splitOpus(new Uint8Array([0x7f, 0xe0, 200, 0xfc, 1]), opusConfig(2))).toEqual([]);
  });

  it("knows a packet's length from its first bytes", () => {
    expect(opusSamples(new Uint8Array([0xfc]))).toBe(960); // CELT, 20 ms, one frame
    expect(opusSamples(new Uint8Array([0xe1]))).toBe(240); // CELT, 2.5 ms, two frames
    expect(opusSamples(new Uint8Array([0x1b, 2]))).toBe(5760); // SILK, 60 ms, two by code 3
    expect(opusSamples(new Uint8Array([]))).toBe(0);
  });

  it("describes six channels with a mapping", () => {
    expect([...opusConfig(6).description.subarray(18)]).toEqual([1, 4, 2, 0, 4, 1, 2, 3, 5]);
  });
});
