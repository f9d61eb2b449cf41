import { describe, expect, it } from "vitest";
import { hex, picture, random } from "../testing/ts_builder";
import { inspect, nalUnits, parseSps } from "./h264";

// Written by x264 for pictures of known size.
const BASELINE_720P50 = "6742c020d9005005bb016a020202800000030080000032078c1924";
const HIGH_1080P25 = "67640028acd940780227e5c05a808080a0000003002000000641e30632c0";
const MAIN_576P25 = "674d401eeca05a093602d4040405000003000100000300320f162d96";
const HIGH422_642X362 = "677a001ebcd940a42fe227c05a808080a0000003002000000781e2c5b2c0";

describe("inspect", () => {
  const captured = "000000010605189d1f3c526b0e4f7a8c21676c6c63617017979cfe362a000080";
  const sets = "00000001" + BASELINE_720P50 + "0000000168cb8cb2";
  const slice = "0000000141ff55";

  it("reads when a picture was captured, beside other messages", () => {
    expect(inspect(hex(captured + slice)).captureUs).toBe(1_700_000_000_000_000);
    expect(inspect(hex(slice)).captureUs).toBeNull();
    expect(inspect(hex(captured.replace("9d1f", "9d1e") + slice)).captureUs).toBeNull();
    const version = "00000001060510" + "11".repeat(16) + "80";
    expect(inspect(hex(version + captured + slice)).captureUs).toBe(1_700_000_000_000_000);
  });

  it("takes out what keeps start codes away", () => {
    // One microsecond after 1970: zeros, with a 03 behind each pair.
    const time = "0000030000030000" + "0303e8";
    expect(inspect(hex("0000000106051 89d1f3c526b0e4f7a8c21676c6c636170".replace(" ", "") + time + "80" + slice)).captureUs).toBe(1);
  });

  it("knows a recovery point by its parameter sets", () => {
    const point = "000000010606022c4080";
    expect(inspect(hex(sets + point + slice))).toMatchObject({ key: true, idr: false, recoveryFrames: 4 });
    expect(inspect(hex(point + slice))).toMatchObject({ key: false, recoveryFrames: 4 });
    expect(inspect(hex(sets + slice))).toMatchObject({ key: false, recoveryFrames: null });
  });

  it("takes messages that are cut anywhere", () => {
    const whole = hex(captured + slice);
    const next = random(5);
    for (let i = 0; i < 200; i++) {
      const cut = whole.slice(0, Math.floor(next() * whole.length));
      if (cut.length > 6) cut[Math.floor(next() * cut.length)] = Math.floor(next() * 256);
      inspect(cut);
    }
  });
});

describe("parseSps", () => {
  it("reads size, rate, codec string and reordering", () => {
    const sps = parseSps(hex(BASELINE_720P50));
    expect(sps).toMatchObject({ width: 1280, height: 720, codecString: "avc1.42c020", frameRate: 50, maxReorderFrames: 0 });
    expect(sps?.colour).toEqual({ primaries: 1, transfer: 1, matrix: 1 });
  });

  it("takes cropping off: 1088 lines are coded, 1080 are shown", () => {
    const sps = parseSps(hex(HIGH_1080P25));
    expect(sps).toMatchObject({ width: 1920, height: 1080, codecString: "avc1.640028", frameRate: 25, maxReorderFrames: 2 });
  });

  it("reads main profile and 4:2:2", () => {
    expect(parseSps(hex(MAIN_576P25))).toMatchObject({ width: 720, height: 576, codecString: "avc1.4d401e" });
    expect(parseSps(hex(HIGH422_642X362))).toMatchObject({ width: 642, height: 362, chromaFormat: 2, frameRate: 30 });
  });

  it("answers null for a cut one, and never throws", () => {
    expect(parseSps(hex(HIGH_1080P25).subarray(0, 8))).toBeNull();
    for (let seed = 1; seed <= 200; seed++) {
      const next = random(seed);
      const bytes = hex(HIGH_1080P25);
      for (let i = 0; i < 4; i++) bytes[1 + Math.floor(next() * (bytes.length - 1))] = Math.floor(next() * 256);
      expect(() => parseSps(bytes), `seed ${seed}`).not.toThrow();
    }
  });
});

describe("access units", () => {
  it("are cut at start codes of three and four bytes", () => {
    const nals = nalUnits(hex("00000001 09f0 000001 6501ff 00000001 4102".replaceAll(" ", "")));
    expect(nals.map((n) => [n.type, n.end - n.start])).toEqual([[9, 2], [5, 3], [1, 2]]);
  });

  it("tell key pictures, references and slices", () => {
    expect(inspect(picture(true, 3))).toMatchObject({ key: true, reference: true, slices: 3 });
    expect(inspect(picture(false, 2))).toMatchObject({ key: false, slices: 2, sps: null });
    expect(inspect(hex("0000000101ff")).reference).toBe(false);
  });

  it("take a recovery point with parameter sets as a place to start", () => {
    const set = `00000001${BASELINE_720P50}0000000168cb8cb2`;
    const recovery = "000000010601018080".replace("0601018080", "0606018080");
    expect(inspect(hex(`${set}${recovery}0000000141ff`)).key).toBe(true);
    expect(inspect(hex(`${recovery}0000000141ff`)).key).toBe(false);
  });
});
