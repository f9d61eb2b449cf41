import { describe, expect, it } from "vitest";
import { AUDIO_PID, TsBuilder, VIDEO_PID, hex, pes, picture, random } from "../testing/ts_builder";
import { inspectAv1, parseSequenceHeader, toSample } from "./av1";
import { concat } from "./bits";
import { Feed, type VideoConfig, type VideoUnit } from "./feed";
import { videoInit, videoMime } from "./mp4";

/** Of libaom, 320×180, BT.709; of SVT-AV1, 10 bits, PQ. */
const BT_709 = hex("000000043cfeccdaf91010101040");
const PQ = hex("000000043cfeccfbf95091009040");
/** What says 2023-11-14T22:13:20Z and a record of stages. */
const CAPTURE = hex("069d1f3c526b0e4f7a8c21676c6c63617017979cfe362a0000010b8e05ac02a09c01a01fa09c0180");

/** An OBU with its size, and behind a start code with emulation prevention. */
function obu(type: number, payload: Uint8Array): { plain: Uint8Array; carried: Uint8Array } {
  const { length } = payload;
  const size = length < 128 ? [length] : [(length & 127) | 128, ((length >> 7) & 127) | 128, length >> 14];
  const plain = concat([new Uint8Array([(type << 3) | 2, ...size]), payload]);
  const escaped: number[] = [];
  let zeros = 0;
  for (const byte of plain) {
    if (zeros >= 2 && byte <= 3) {
      escaped.push(3);
      zeros = 0;
    }
    escaped.push(byte);
    zeros = byte === 0 ? zeros + 1 : 0;
  }
  return { plain, carried: concat([new Uint8Array([0, 0, 1]), new Uint8Array(escaped)]) };
}

const DELIMITER = obu(2, new Uint8Array(0));
const frame = (key: boolean, bytes = 40, fill = 0): ReturnType<typeof obu> =>
  obu(6, concat([new Uint8Array([key ? 0x10 : 0x30]), new Uint8Array(bytes).fill(fill), new Uint8Array([0x80])]));

/** A temporal unit as MPEG-TS carries it. */
function unit(key: boolean, parts: { sequence?: Uint8Array | null; capture?: boolean; bytes?: number } = {}): Uint8Array {
  const sequence = parts.sequence === undefined ? BT_709 : parts.sequence;
  return concat([
    DELIMITER.carried,
    ...(key && sequence ? [obu(1, sequence).carried] : []),
    ...(parts.capture ? [obu(5, CAPTURE).carried] : []),
    frame(key, parts.bytes).carried,
  ]);
}

describe("a temporal unit of AV1", () => {
  it("is told by its frame, and says when it was captured", () => {
    const key = inspectAv1(unit(true, { capture: true }));
    expect([key.key, key.idr, key.slices, key.sps]).toEqual([true, true, 1, obu(1, BT_709).plain]);
    expect(key.captureUs).toBe(1_700_000_000_000_000);
    expect(key.record).not.toBeNull();
    const other = inspectAv1(unit(false));
    expect([other.key, other.slices, other.sps, other.captureUs]).toEqual([false, 1, null, null]);
    // A frame that is shown again, and one of another kind that is hidden, are no beginning.
    for (const first of [0x80, 0x00, 0x20]) {
      expect(inspectAv1(concat([DELIMITER.carried, obu(3, new Uint8Array([first, 0x80])).carried])).key).toBe(false);
    }
  });

  it("becomes a sample without what is there for the transport alone", () => {
    const carried = concat([unit(true), obu(15, hex("0780")).carried]);
    expect(toSample(carried)).toEqual(concat([obu(1, BT_709).plain, frame(true).plain]));
    // A payload that ends with a zero keeps it.
    const open = obu(4, hex("01000000"));
    expect(toSample(concat([open.carried, frame(false).carried]))).toEqual(concat([open.plain, frame(false).plain]));
    expect(toSample(open.carried)).toEqual(open.plain);
  });

  it("says nothing where it is cut off or damaged, and never throws", () => {
    const whole = unit(true, { capture: true });
    const next = random(7);
    for (let round = 0; round < 2000; round++) {
      const bytes = whole.slice(0, Math.floor(next() * (whole.length + 1)));
      for (let i = 0; i < 3 && bytes.length > 0; i++) bytes[Math.floor(next() * bytes.length)] = Math.floor(next() * 256);
      const info = inspectAv1(bytes);
      expect(toSample(bytes).length).toBeLessThanOrEqual(bytes.length + 64);
      if (info.sps) parseSequenceHeader(info.sps);
    }
    expect(parseSequenceHeader(new Uint8Array(0))).toBeNull();
    expect(parseSequenceHeader(obu(1, BT_709.subarray(0, 6)).plain)).toBeNull();
    expect(inspectAv1(obu(5, CAPTURE.subarray(0, 20)).carried).captureUs).toBeNull();
  });
});

describe("a sequence header", () => {
  it("says size, format and configuration", () => {
    const plain = parseSequenceHeader(obu(1, BT_709).plain)!;
    expect([plain.width, plain.height, plain.codecString]).toEqual([320, 180, "av01.0.00M.08"]);
    const config: VideoConfig = { codec: "av1", sequence: obu(1, BT_709).plain, parameters: plain };
    expect(videoMime(config)).toBe('video/mp4; codecs="av01.0.00M.08"');
    const init = videoInit(config);
    const text = String.fromCharCode(...init);
    const at = text.indexOf("av1C");
    expect(text.indexOf("av01")).toBeGreaterThan(0);
    expect([...init.subarray(at + 4, at + 8)]).toEqual([0x81, 0x00, 0x0c, 0x00]);
    expect(init.subarray(at + 8, at + 8 + config.sequence.length)).toEqual(config.sequence);
    expect(parseSequenceHeader(obu(1, PQ).plain)!.codecString).toBe("av01.0.00M.10.0.110.09.16.09.0");
  });
});

describe("a stream of AV1", () => {
  function bench(): { feed: Feed; b: TsBuilder; video: VideoUnit[]; configs: VideoConfig[] } {
    const [video, configs]: [VideoUnit[], VideoConfig[]] = [[], []];
    const feed = new Feed({ tracks: () => undefined, videoConfig: (c) => configs.push(c), video: (u) => video.push(u), audio: () => undefined });
    return { feed, b: new TsBuilder(), video, configs };
  }
  const show = (b: TsBuilder, number: number, data: Uint8Array, bounded = true): Uint8Array =>
    b.packets(VIDEO_PID, [pes(0xbd, number * 3600, number * 3600, data, bounded)], { random: number === 0 });

  it("begins at a key frame and goes on picture by picture, as each comes", () => {
    const { feed, b, video, configs } = bench();
    feed.push(concat([b.tables("opus", { codec: "av1" }), show(b, 0, unit(false))]));
    expect([video.length, configs.length]).toEqual([0, 0]);
    feed.push(show(b, 1, unit(true, { capture: true })));
    expect([video.length, configs.length]).toEqual([1, 1]);
    expect(video[0]).toMatchObject({ idr: true, reset: true, reference: true, captureUs: 1_700_000_000_000_000 });
    expect(video[0]!.data).toEqual(concat([obu(1, BT_709).plain, obu(5, CAPTURE).plain, frame(true).plain]));
    feed.push(show(b, 2, unit(false)));
    expect(video[1]).toMatchObject({ idr: false, reset: false });
    expect(video[1]!.ptsUs - video[0]!.ptsUs).toBe(40_000);
    // One that is too long for the field of its length ends where its last packet is filled up.
    feed.push(show(b, 3, unit(false, { bytes: 70_000 }), false));
    expect([video.length, video[2]!.data.length > 70_000]).toEqual([3, true]);
    // Sound that comes before it says nothing of it.
    feed.push(concat([show(b, 4, unit(false)), b.packets(AUDIO_PID, [hex("000001bd0000")])]));
    expect(video.length).toBe(4);
  });

  it("tells of another size, and puts the sequence header in front of a key frame that has none", () => {
    const { feed, b, video, configs } = bench();
    feed.push(concat([b.tables(null, { codec: "av1" }), show(b, 0, unit(true)), show(b, 1, unit(true, { sequence: PQ })), show(b, 2, unit(true, { sequence: null }))]));
    expect(configs.map((config) => config.parameters.codecString)).toEqual(["av01.0.00M.08", "av01.0.00M.10.0.110.09.16.09.0"]);
    expect(video[2]!.data).toEqual(concat([obu(1, PQ).plain, frame(true).plain]));
  });

  it("gives way to H.264 and back, each with what its decoder needs", () => {
    const { feed, b, video, configs } = bench();
    feed.push(concat([b.tables(null, { codec: "av1" }), show(b, 0, unit(true)), show(b, 1, unit(false))]));
    feed.push(concat([b.map(null, { version: 1 }), b.packets(VIDEO_PID, [pes(0xe0, 7200, 7200, picture(true), true)]), b.packets(VIDEO_PID, [pes(0xe0, 10_800, 10_800, picture(false), true)])]));
    feed.push(concat([b.map(null, { version: 2, codec: "av1" }), show(b, 4, unit(false)), show(b, 5, unit(true))]));
    expect(configs.map((config) => config.codec)).toEqual(["av1", "h264", "av1"]);
    expect(video.map((one) => [one.idr, one.reset])).toEqual([[true, true], [false, false], [true, true], [false, false], [true, true]]);
  });
});
