import { describe, expect, it } from "vitest";
import { hex } from "../testing/ts_builder";
import { ChunkTimes } from "./chunk_times";

const bytesOf = (...parts: (number[] | Uint8Array)[]): Uint8Array => Uint8Array.from(parts.flatMap((part) => [...part]));
const u32 = (value: number): number[] => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];
const u64 = (value: number): number[] => [...u32(Math.floor(value / 2 ** 32)), ...u32(value % 2 ** 32)];
const ascii = (text: string): number[] => [...text].map((letter) => letter.charCodeAt(0));
const box = (type: string, ...body: (number[] | Uint8Array)[]): Uint8Array => {
  const inner = bytesOf(...body);
  return bytesOf(u32(inner.length + 8), ascii(type), inner);
};

const init = (kind: string, timescale: number): Uint8Array =>
  box("moov", box("trak", box("mdia",
    box("mdhd", u32(0), u32(0), u32(0), u32(timescale), u32(0), u32(0)),
    box("hdlr", u32(0), u32(0), ascii(kind), u32(0)))));
const prft = (utcS: number): Uint8Array =>
  box("prft", u32(0x01000018), u32(1), u32(Math.floor(utcS) + 2_208_988_800), u32((utcS % 1) * 2 ** 32), u64(0));
/** A fragment of one sample, shown `offset` after it is decoded; null: its table has no such column. */
const chunk = (decode: number, offset: number | null, sample: Uint8Array = bytesOf(u32(0))): Uint8Array => bytesOf(
  box("moof", box("mfhd", u32(0), u32(1)), box("traf",
    box("tfhd", u32(0x020000), u32(1)),
    box("tfdt", u32(0x01000000), u64(decode)),
    offset === null
      ? box("trun", u32(0x000301), u32(1), u32(8), u32(1800), u32(4))
      : box("trun", u32(0x01000f01), u32(1), u32(8), u32(1800), u32(4), u32(0), u32(offset)))),
  box("mdat", sample));
/** A NAL unit behind its length. */
const nal = (text: string): number[] => [...u32(text.length / 2), ...hex(text)];
/** Says 2023-11-14T22:13:20Z, and that the picture was queued after 5 µs. */
const message = nal("06051c9d1f3c526b0e4f7a8c21676c6c63617017979cfe362a000003010002" + "0580");

describe("capture times of chunks", () => {
  it("belong to the first picture of the fragment behind", () => {
    const times = new ChunkTimes();
    expect(times.read(init("vide", 90_000))).toEqual([]);
    const found = times.read(bytesOf(prft(1_700_000_000.5), chunk(900_000, null), prft(1_700_000_000.75), chunk(901_800, 3600)));
    expect(found.map(({ mediaS }) => mediaS)).toEqual([10, 10.06]);
    expect(found[0]!.captureUs).toBeCloseTo(1_700_000_000_500_000, -1);
    expect(found[1]!.captureUs).toBeCloseTo(1_700_000_000_750_000, -1);
  });

  it("come with what the sender says in the picture's own message, where that is of the same time", () => {
    const times = new ChunkTimes();
    times.read(init("vide", 90_000));
    const sample = bytesOf(nal("09f0"), nal("6742c020"), message, nal("65ff"));
    const [found] = times.read(bytesOf(prft(1_700_000_000), chunk(900_000, null, sample)));
    expect(found).toMatchObject({ mediaS: 10, captureUs: 1_700_000_000_000_000, record: { queued: 5 } });
    const [other] = times.read(bytesOf(prft(1_700_000_001), chunk(900_000, null, sample)));
    expect(other).toMatchObject({ captureUs: 1_700_000_001_000_000, record: null });
    const [behind] = times.read(bytesOf(prft(1_700_000_000), chunk(900_000, null, bytesOf(nal("65ff"), message))));
    expect(behind!.record).toBeNull();
  });

  it("may have offsets into the past", () => {
    const times = new ChunkTimes();
    times.read(init("vide", 90_000));
    expect(times.read(bytesOf(prft(1.5), chunk(900_000, -1800)))[0]!.mediaS).toBeCloseTo(9.98);
  });

  it("are not told of fragments without one, and before the track is known", () => {
    const video = new ChunkTimes();
    expect(video.read(bytesOf(prft(1.5), chunk(1, null)))).toEqual([]);
    video.read(init("vide", 90_000));
    expect(video.read(chunk(1, null))).toEqual([]);
    expect(video.read(bytesOf(prft(1.5), chunk(1, null), chunk(2, null)))).toHaveLength(1);
    const sound = new ChunkTimes();
    sound.read(init("soun", 48_000));
    expect(sound.read(bytesOf(prft(1.5), chunk(48_000, null)))).toEqual([{ mediaS: 1, captureUs: 1_500_000, record: null, isSound: true }]);
  });

  it("survive bytes of any kind", () => {
    const whole = bytesOf(init("vide", 90_000), prft(1_700_000_000), chunk(900_000, 0, bytesOf(message, nal("65ff"))));
    for (let length = 0; length < whole.length; length++) new ChunkTimes().read(whole.subarray(0, length));
    // Boxes that say a wrong size.
    for (let at = 0; at < whole.length; at++) {
      const wrong = whole.slice();
      wrong[at] = wrong[at]! ^ 0xff;
      new ChunkTimes().read(wrong);
    }
  });
});
