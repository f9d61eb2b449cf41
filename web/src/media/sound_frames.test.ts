import { describe, expect, it } from "vitest";
import { hex } from "../testing/ts_builder";
import { concat } from "./bits";
import { FrameSplitter, ac3Head, mpegHead } from "./sound_frames";

/** A frame that begins so, of so many bytes. */
function frame(head: string, bytes: number): Uint8Array {
  const made = new Uint8Array(bytes).fill(0x11);
  made.set(hex(head));
  return made;
}

describe("MPEG audio", () => {
  it("is cut into frames, also over the end of a payload, and says what it is", () => {
    // LAME at 128 kbit/s and 44.1 kHz, without and with padding; twolame at 192 kbit/s and 48 kHz; LAME at 64 kbit/s and 22.05 kHz.
    for (const [head, bytes, expected] of [
      ["fffb9064", 417, { name: "MP3", codecString: "mp3", sampleRate: 44_100, channels: 2, samples: 1152 }],
      ["fffb9264", 418, { name: "MP3", codecString: "mp3", sampleRate: 44_100, channels: 2, samples: 1152 }],
      ["fffda400", 576, { name: "MP2", codecString: "mp4a.40.33", sampleRate: 48_000, channels: 2, samples: 1152 }],
      ["fff380c0", 208, { name: "MP3", codecString: "mp3", sampleRate: 22_050, channels: 1, samples: 576 }],
    ] as const) {
      const splitter = new FrameSplitter(mpegHead);
      const all = concat([frame(head, bytes), frame(head, bytes), frame(head, bytes)]);
      const frames = [...splitter.split(all.subarray(0, bytes + 5)), ...splitter.split(all.subarray(bytes + 5))];
      expect(frames.map(({ data }) => data.length)).toEqual([bytes, bytes, bytes]);
      const { samples, ...config } = expected;
      expect(frames[1]!.samples).toBe(samples);
      expect(frames[1]!.config).toMatchObject(config);
      expect(frames[2]!.config).toBe(frames[0]!.config);
    }
  });

  it("is found again behind foreign bytes and after a loss", () => {
    const splitter = new FrameSplitter(mpegHead);
    splitter.split(frame("fffb9064", 417).subarray(0, 100));
    expect(splitter.carriedBytes).toBe(100);
    splitter.reset();
    expect(splitter.split(concat([hex("00ff0000"), frame("fffb9064", 417), hex("ffebffff00000000")]))).toHaveLength(1);
  });
});

describe("AC-3", () => {
  it("says its length, channels and what MP4 tells a decoder", () => {
    // ffmpeg at 48 kHz: stereo of 192 kbit/s, 5.1 of 448 kbit/s.
    const stereo = frame("0b7700001440434000", 768);
    const surround = frame("0b7700001e40e14000", 1792);
    const splitter = new FrameSplitter(ac3Head);
    const frames = splitter.split(concat([stereo, surround]));
    expect(frames.map(({ data, samples, config }) => [data.length, samples, config.channels, config.codecString])).toEqual([
      [768, 1536, 2, "ac-3"], [1792, 1536, 6, "ac-3"],
    ]);
    // rate 0, bsid 8, bsmod 0, acmod 2, no lfe, bit rate 10.
    expect([...frames[0]!.config.description]).toEqual([0x10, 0x11, 0x40]);
  });

  it("of the enhanced kind leaves out what adds channels", () => {
    // Independent substream of 768 bytes at 48 kHz, six blocks, stereo; a dependent one behind it.
    const own = frame("0b77017f348400", 768);
    const added = frame("0b77417f348400", 768);
    const frames = new FrameSplitter(ac3Head).split(concat([own, added, own]));
    expect(frames).toHaveLength(2);
    expect(frames[0]!.config).toMatchObject({ codec: "eac3", codecString: "ec-3", sampleRate: 48_000, channels: 2 });
    expect(frames[0]!.config.description).toHaveLength(5);
    expect(frames[1]!.config).toBe(frames[0]!.config);
  });

  it("survives bytes of any kind", () => {
    let seed = 7;
    const bytes = Uint8Array.from({ length: 60_000 }, () => (seed = (seed * 16807) % 2147483647) & 255);
    for (const head of [ac3Head, mpegHead]) {
      const splitter = new FrameSplitter(head);
      for (let at = 0; at < bytes.length; at += 777) {
        for (const { data } of splitter.split(bytes.subarray(at, at + 777))) expect(data.length).toBeGreaterThan(7);
      }
      expect(splitter.carriedBytes).toBeLessThanOrEqual(16384);
    }
  });
});
