import { describe, expect, it } from "vitest";
import { hex, picture } from "../testing/ts_builder";
import { opusConfig } from "./audio";
import type { VideoConfig } from "./feed";
import { nalUnits, parseSps } from "./h264";
import { audioInit, audioMimes, fragment, toLengthPrefixed, videoInit, videoMime } from "./mp4";

interface Box {
  type: string;
  body: Uint8Array;
}

/** The boxes that fill `data` exactly. */
function boxes(data: Uint8Array): Box[] {
  const found: Box[] = [];
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  let at = 0;
  while (at < data.length) {
    const size = view.getUint32(at);
    expect(size).toBeGreaterThanOrEqual(8);
    found.push({ type: String.fromCharCode(...data.subarray(at + 4, at + 8)), body: data.subarray(at + 8, at + size) });
    at += size;
  }
  expect(at).toBe(data.length);
  return found;
}

function find(data: Uint8Array, ...path: string[]): Uint8Array {
  let body = data;
  for (const type of path) {
    const box = boxes(body).find((b) => b.type === type);
    if (!box) throw new Error(`no ${type} among ${boxes(body).map((b) => b.type).join(" ")}`);
    body = box.body;
  }
  return body;
}

const view = (data: Uint8Array): DataView => new DataView(data.buffer, data.byteOffset, data.length);
const sps = hex("67640028acd940780227e5c05a808080a0000003002000000641e30632c0");
const pps = hex("68ebe3cb22c0");
const video: VideoConfig = { codec: "h264", sps, pps, parameters: parseSps(sps)! };

describe("initialisation segments", () => {
  it("carry size, parameter sets and colour of the video", () => {
    const init = videoInit(video);
    expect(boxes(init).map((b) => b.type)).toEqual(["ftyp", "moov"]);
    const stsd = find(init, "moov", "trak", "mdia", "minf", "stbl", "stsd");
    const entry = find(stsd.subarray(8), "avc1");
    expect([view(entry).getUint16(24), view(entry).getUint16(26)]).toEqual([1920, 1080]);
    const children = boxes(entry.subarray(78));
    expect(children.map((b) => b.type)).toEqual(["avcC", "colr"]);
    const avcC = children[0]!.body;
    expect([...avcC.subarray(0, 4)]).toEqual([1, 0x64, 0, 0x28]);
    expect(avcC.subarray(8, 8 + sps.length)).toEqual(sps);
    expect(find(init, "moov", "mvex", "trex")).toHaveLength(24);
    expect(videoMime(video)).toBe('video/mp4; codecs="avc1.640028"');
  });

  it("carry Opus' and AAC's configuration", () => {
    const stbl = ["moov", "trak", "mdia", "minf", "stbl", "stsd"];
    const opus = find(audioInit(opusConfig(2)), ...stbl).subarray(8);
    expect([...find(find(opus, "Opus").subarray(28), "dOps")]).toEqual([0, 2, 0, 0, 0, 0, 0xbb, 0x80, 0, 0, 0]);
    const aac = { codec: "aac" as const, name: "AAC", codecString: "mp4a.40.2", sampleRate: 44100, channels: 2, description: new Uint8Array([0x12, 0x10]) };
    const esds = find(find(find(audioInit(aac), ...stbl).subarray(8), "mp4a").subarray(28), "esds");
    expect(Buffer.from(esds).toString("hex")).toContain("0580808002" + "1210");
    expect(audioMimes(aac)).toEqual(['audio/mp4; codecs="mp4a.40.2"']);
  });
});

describe("fragments", () => {
  it("place their samples where the data offset says", () => {
    const samples = [
      { data: new Uint8Array([1, 2, 3]), duration: 3600, compositionOffset: 7200, sync: true },
      { data: new Uint8Array([4, 5]), duration: 3600, compositionOffset: -1, sync: false },
    ];
    const bytes = fragment(7, 2 ** 33 + 5, samples);
    expect(boxes(bytes).map((b) => b.type)).toEqual(["moof", "mdat"]);
    expect(view(find(bytes, "moof", "mfhd")).getUint32(4)).toBe(7);
    expect(view(find(bytes, "moof", "traf", "tfdt")).getBigUint64(4)).toBe(2n ** 33n + 5n);
    const trun = view(find(bytes, "moof", "traf", "trun"));
    expect(trun.getUint32(4)).toBe(2);
    const offset = trun.getUint32(8);
    expect([...bytes.subarray(offset, offset + 5)]).toEqual([1, 2, 3, 4, 5]);
    expect([trun.getUint32(12), trun.getUint32(16), trun.getUint32(20), trun.getInt32(24)]).toEqual([3600, 3, 0x02000000, 7200]);
    expect(trun.getInt32(40)).toBe(-1);
    expect(trun.getUint32(36) & 0x10000).toBe(0x10000);
  });

  it("hold NAL units behind their lengths, without delimiters", () => {
    const annexB = picture(false, 2, 10);
    const sample = toLengthPrefixed(annexB, nalUnits(annexB));
    expect(sample).toHaveLength(2 * (4 + 11));
    expect(view(sample).getUint32(0)).toBe(11);
    expect(sample[4]).toBe(0x41);
  });
});
