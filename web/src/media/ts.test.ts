import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { AUDIO_PID, TsBuilder, VIDEO_PID, association, ended, hex, pes, picture, random } from "../testing/ts_builder";
import { concat } from "./bits";
import { type PesUnit, type Track, TsDemuxer } from "./ts";

function collect(): { demuxer: TsDemuxer; units: PesUnit[]; tracks: Track[][]; broken: number[] } {
  const units: PesUnit[] = [];
  const tracks: Track[][] = [];
  const broken: number[] = [];
  const demuxer = new TsDemuxer({
    tracks: (t) => tracks.push([...t]),
    unit: (u) => units.push(u),
    broken: (t) => broken.push(t.pid),
  });
  return { demuxer, units, tracks, broken };
}

const marked = (builder: TsBuilder, n: number, pid = VIDEO_PID): Uint8Array =>
  builder.packets(pid, [pes(0xe0, n * 3600, n * 3600, ended(picture(n % 10 === 0)), true)]);

const video = (builder: TsBuilder, n: number, slices = 1, bounded = false, pid = VIDEO_PID): Uint8Array =>
  builder.packets(pid, [pes(0xe0, n * 3600, n * 3600, picture(n % 10 === 0, slices, 100 + 37 * (n % 7)), bounded)], {
    random: n % 10 === 0,
  });

function mixed(pictures: number): Uint8Array {
  const builder = new TsBuilder();
  const parts = [builder.tables("opus")];
  for (let n = 0; n < pictures; n++) {
    parts.push(video(builder, n));
    parts.push(builder.packets(AUDIO_PID, [pes(0xbd, n * 3600, n * 3600, new Uint8Array(50 + n).fill(n), true)]));
  }
  return concat(parts);
}

/** The parameter sets of 1280×720, 50 pictures a second. */
const SETS = ["6742c020d9005005bb016a020202800000030080000032078c1924", "68cb8cb2"];

/** A PES packet whose header says no times. */
function withoutStamps(whole: Uint8Array): Uint8Array {
  const stamps = whole[8]!;
  const out = concat([whole.subarray(0, 9), whole.subarray(9 + stamps)]);
  const length = (out[4]! << 8) | out[5]!;
  if (length > 0) out.set([(length - stamps) >> 8, (length - stamps) & 255], 4);
  out[7] = 0;
  out[8] = 0;
  return out;
}

describe("TsDemuxer", () => {
  it("says when the last byte of each unit came, also where the next one's begin shows that it was that", () => {
    const builder = new TsBuilder();
    const { demuxer, units } = collect();
    demuxer.push(builder.tables(), 1);
    const first = video(builder, 0, 2);
    demuxer.push(first.subarray(0, 188), 2);
    demuxer.push(first.subarray(188), 3);
    expect(units).toEqual([]);
    demuxer.push(video(builder, 1, 2, true), 4);
    // Nothing has shown yet that a PES packet's end is a picture's.
    expect(units.map(({ receivedMs }) => receivedMs)).toEqual([3]);
    demuxer.push(video(builder, 2, 2, true), 5);
    expect(units.map(({ receivedMs }) => receivedMs)).toEqual([3, 4]);
  });

  it("gives the same units however the bytes are chopped", () => {
    const bytes = mixed(40);
    const whole = collect();
    whole.demuxer.push(bytes);
    expect(whole.tracks).toHaveLength(1);
    expect(whole.tracks[0]!.map((t) => [t.codec, t.channels])).toEqual([["h264", 0], ["opus", 2]]);
    expect(whole.units.filter((u) => u.track.kind === "audio")).toHaveLength(40);
    const content = (units: PesUnit[], kind: string): unknown[] =>
      units.filter((u) => u.track.kind === kind).map((u) => [u.pts, u.dts, u.randomAccess, Buffer.from(u.data).toString("hex")]);
    for (let seed = 1; seed <= 20; seed++) {
      const next = random(seed);
      const chopped = collect();
      for (let at = 0; at < bytes.length; ) {
        const size = 1 + Math.floor(next() * (seed % 2 ? 400 : 5));
        chopped.demuxer.push(bytes.subarray(at, at + size));
        at += size;
      }
      for (const kind of ["video", "audio"]) {
        const [a, b] = [content(whole.units, kind), content(chopped.units, kind)];
        // The last picture may be known to be whole, or not yet.
        expect(b.slice(0, 39), `seed ${seed}`).toEqual(a.slice(0, 39));
      }
      expect(chopped.broken, `seed ${seed}`).toEqual([]);
    }
  });

  it("emits a picture at the last byte of its PES of known length, once several longer ones were whole pictures", () => {
    const builder = new TsBuilder();
    const { demuxer, units } = collect();
    demuxer.push(builder.tables());
    for (let n = 0; n < 4; n++) demuxer.push(builder.packets(VIDEO_PID, [pes(0xe0, 0, 0, picture(true, 1, 600), true)]));
    expect(units).toHaveLength(3);
    const packets = builder.packets(VIDEO_PID, [pes(0xe0, 3600, 3600, picture(false, 1, 400), true)]);
    demuxer.push(packets.subarray(0, packets.length - 1));
    expect(units).toHaveLength(4);
    demuxer.push(packets.subarray(packets.length - 1));
    expect(units).toHaveLength(5);
    expect(units.map((u) => u.data).slice(3)).toEqual([picture(true, 1, 600), picture(false, 1, 400)]);
  });

  /** Pictures whose first slices begin with the first macroblock, in any layout; a key frame each ten. */
  const laidOut = (next: () => number, count: number): Uint8Array[] =>
    Array.from({ length: count }, (_, n) => {
      const key = n % 10 === 0;
      const start = (): number[] => (next() < 0.5 ? [0, 0, 1] : [0, 0, 0, 1]);
      const bytes: number[] = [];
      if (next() < 0.5) bytes.push(0, 0, 0, 1, 9, 0xf0);
      if (key) for (const set of SETS) bytes.push(0, 0, 0, 1, ...hex(set));
      for (let slice = 0; slice < 1 + Math.floor(next() * 3); slice++) {
        // first_mb_in_slice 0 or 1, slice_type 7, the parameter sets 0, frame_num 0.
        bytes.push(...start(), key ? 0x65 : 0x41, ...(slice === 0 ? [0x88, 0x84] : [0x42, 0x21]));
        for (let i = 0; i < next() * 300; i++) bytes.push(0x80 | Math.floor(next() * 127));
      }
      return new Uint8Array(bytes);
    });

  /** All that comes out, the last picture too. */
  const demuxed = (parts: Uint8Array[]): { found: [number, string][]; broken: number[] } => {
    const builder = new TsBuilder();
    const { demuxer, units, broken } = collect();
    demuxer.push(concat([builder.tables(), ...parts]));
    demuxer.push(builder.tables(null, { video: 0x333, version: 1 }));
    return { found: units.map((u) => [u.dts, Buffer.from(u.data).toString("hex")]), broken };
  };

  it("finds pictures that lie in several PES packets, several in one, and cut anywhere", () => {
    for (let seed = 1; seed <= 60; seed++) {
      const next = random(seed);
      const pictures = laidOut(next, 30);
      const expected = pictures.map((data, n) => [n * 1800, Buffer.from(data).toString("hex")]);
      const bounded = seed % 2 === 0;
      const begins: number[] = [];
      let at = 0;
      for (const data of pictures) {
        begins.push(at);
        at += data.length;
      }
      const bytes = concat(pictures);
      const size = 20 + Math.floor(next() * 400);
      // Where PES packets begin: at each picture and each few bytes in it, at each third picture, each few bytes.
      const layouts: number[][] = [
        pictures.flatMap((data, n) => Array.from({ length: Math.ceil(data.length / size) }, (_, i) => begins[n]! + i * size)),
        begins.filter((_, n) => n % 3 === 0),
        Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => i * size),
      ];
      for (const [kind, cuts] of layouts.entries()) {
        const builder = new TsBuilder();
        const parts = cuts.map((from, i) => {
          const to = cuts[i + 1] ?? bytes.length;
          const first = begins.findIndex((begin) => begin >= from && begin < to);
          const whole = pes(0xe0, Math.max(0, first) * 1800, Math.max(0, first) * 1800, bytes.subarray(from, to), bounded);
          return builder.packets(VIDEO_PID, [first < 0 ? withoutStamps(whole) : whole]);
        });
        const { found, broken } = demuxed(parts);
        expect(found, `seed ${seed}, layout ${kind}`).toEqual(expected);
        expect(broken).toEqual([]);
      }
    }
  });

  it("keeps a whole picture in front of an announced jump", () => {
    const builder = new TsBuilder();
    const { demuxer, units } = collect();
    demuxer.push(builder.tables());
    demuxer.push(video(builder, 0));
    demuxer.push(video(builder, 1));
    demuxer.push(builder.packets(VIDEO_PID, [pes(0xe0, 900_000, 900_000, picture(true), false)], { discontinuity: true }));
    expect(units.map((u) => [u.dts, u.discontinuity])).toEqual([[0, false], [3600, false]]);
    demuxer.push(video(builder, 2));
    expect(units.map((u) => [u.dts, u.discontinuity])).toEqual([[0, false], [3600, false], [900_000, true]]);
  });

  it("emits a picture of unknown length at its mark, from the first on and whole", () => {
    const builder = new TsBuilder();
    const { demuxer, units, broken } = collect();
    demuxer.push(builder.tables());
    const mark = new Uint8Array([0, 0, 1, 12, 0x80]);
    for (let n = 0; n < 5; n++) {
      // The number of slices changes, and packets between them are stuffed.
      const data = picture(n === 0, 1 + (n % 3), 100);
      const whole = concat([pes(0xe0, n * 3600, n * 3600, data, false), mark]);
      const packets = builder.packets(VIDEO_PID, [whole.subarray(0, 110), whole.subarray(110)]);
      for (let at = 0; at < packets.length; at += 188) {
        expect(units).toHaveLength(n);
        demuxer.push(packets.subarray(at, at + 188));
      }
      expect(units).toHaveLength(n + 1);
      expect(units[n]!.data).toEqual(data);
    }
    expect(broken).toEqual([]);
  });

  it("emits a picture of unknown length at its end, once the number of slices is steady", () => {
    const builder = new TsBuilder();
    const { demuxer, units, broken } = collect();
    demuxer.push(builder.tables());
    for (let n = 0; n < 30; n++) {
      demuxer.push(video(builder, n, 2));
      expect(units.length, `after picture ${n}`).toBe(n < 8 ? n : n + 1);
    }
    expect(broken).toEqual([]);
  });

  it("keeps a picture whole whose slices are sent one by one with stuffing between them", () => {
    const builder = new TsBuilder();
    const { demuxer, units, broken } = collect();
    demuxer.push(builder.tables());
    for (let n = 0; n < 20; n++) {
      const whole = pes(0xe0, n * 3600, n * 3600, picture(n === 0, 2, 100), false);
      const cut = whole.length - 105;
      const packets = builder.packets(VIDEO_PID, [whole.subarray(0, cut), whole.subarray(cut)]);
      for (let at = 0; at < packets.length; at += 188) demuxer.push(packets.subarray(at, at + 188));
    }
    expect(units).toHaveLength(20);
    expect(units.every((u, n) => u.data.length === picture(n === 0, 2, 100).length)).toBe(true);
    expect(broken).toEqual([]);
  });

  it("says so when it was wrong about a picture's end, and guesses no more", () => {
    const builder = new TsBuilder();
    const { demuxer, units, broken } = collect();
    demuxer.push(builder.tables());
    for (let n = 0; n < 12; n++) demuxer.push(video(builder, n));
    expect(units).toHaveLength(12);
    const odd = pes(0xe0, 12 * 3600, 12 * 3600, picture(false, 2, 100), false);
    demuxer.push(builder.packets(VIDEO_PID, [odd.subarray(0, odd.length - 105)]));
    expect(units).toHaveLength(13);
    // The rest of it comes, without a new PES.
    const rest = builder.packets(VIDEO_PID, [odd.subarray(odd.length - 105)]);
    rest[1]! &= 0xbf;
    demuxer.push(rest);
    demuxer.push(video(builder, 13));
    expect(broken).toEqual([VIDEO_PID]);
    demuxer.push(video(builder, 14));
    expect(units).toHaveLength(14);
  });

  it("marks what follows a lost packet, and counts it", () => {
    const bytes = mixed(12);
    const { demuxer, units } = collect();
    const lost = 188 * 9;
    demuxer.push(bytes.subarray(0, lost));
    demuxer.push(bytes.subarray(lost + 188));
    expect(demuxer.continuityErrors).toBe(1);
    expect(units.filter((u) => u.discontinuity)).toHaveLength(1);
  });

  it("follows a program whose PIDs change, and loses no picture", () => {
    // The PMT anew in its place; the PMT elsewhere and so the PAT; both.
    for (const layout of [{ video: 0x200, sound: 0x201 }, { pmt: 0x1100 }, { video: 0x200, sound: 0x201, pmt: 0x1100 }]) {
      const builder = new TsBuilder();
      const { demuxer, units, tracks, broken } = collect();
      const audio = (n: number, pid: number): Uint8Array =>
        builder.packets(pid, [pes(0xbd, n * 3600, n * 3600, new Uint8Array(50 + n).fill(n), true)]);
      const { video: pid, sound } = { video: VIDEO_PID, sound: AUDIO_PID, ...layout };
      const parts = [builder.tables("opus")];
      for (let n = 0; n < 20; n++) parts.push(video(builder, n), audio(n, AUDIO_PID));
      parts.push(builder.tables("opus", { ...layout, version: 1 }));
      for (let n = 20; n < 40; n++) parts.push(video(builder, n, 1, false, pid), audio(n, sound));
      // At once, so that nothing but the next picture, or the change, tells of a picture's end.
      demuxer.push(concat(parts));
      const stamps = (kind: string): number[] => units.filter((u) => u.track.kind === kind).map((u) => u.pts / 3600);
      const all = Array.from({ length: 40 }, (_, n) => n);
      expect(stamps("video")).toEqual(all);
      expect(stamps("audio")).toEqual(all);
      expect(tracks.at(-1)!.map((t) => t.pid)).toEqual([pid, sound]);
      expect([demuxer.continuityErrors, broken]).toEqual([0, []]);
    }
  });

  it("stays with its program where the PAT lists another first, or both share a PID", () => {
    const builder = new TsBuilder();
    const { demuxer, units, tracks } = collect();
    demuxer.push(builder.tables());
    demuxer.push(marked(builder, 0));
    demuxer.push(builder.packets(0, [association(1, [[7, 0x1200], [1, 0x1000]])]));
    demuxer.push(builder.map(null, { program: 7, pmt: 0x1200, video: 0x300 }));
    demuxer.push(builder.map(null, { program: 7, video: 0x300, version: 1 }));
    demuxer.push(marked(builder, 1));
    demuxer.push(marked(builder, 1, 0x300));
    expect(tracks.map((list) => list.map((t) => t.pid))).toEqual([[VIDEO_PID]]);
    expect(units.map((u) => [u.track.pid, u.pts])).toEqual([[VIDEO_PID, 0], [VIDEO_PID, 3600]]);
    // It is gone: the first of the others takes its place.
    demuxer.push(builder.packets(0, [association(2, [[7, 0x1200]])]));
    demuxer.push(builder.map(null, { program: 7, pmt: 0x1200, video: 0x300 }));
    demuxer.push(marked(builder, 2, 0x300));
    expect(units.at(-1)!.track.pid).toBe(0x300);
  });

  it("finds packets behind foreign bytes", () => {
    const { demuxer, units } = collect();
    demuxer.push(concat([new Uint8Array([1, 0x47, 2, 3]), mixed(3)]));
    expect(units.length).toBeGreaterThanOrEqual(5);
  });

  it("survives any bytes", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const next = random(seed);
      const { demuxer } = collect();
      const bytes = mixed(6);
      for (let i = 0; i < 200; i++) bytes[Math.floor(next() * bytes.length)] = Math.floor(next() * 256);
      expect(() => demuxer.push(bytes), `seed ${seed}`).not.toThrow();
    }
  });

  it.skipIf(spawnSync("ffmpeg", ["-version"]).status !== 0)("reads what FFmpeg writes", () => {
    const made = spawnSync("ffmpeg", [
      "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-f", "lavfi", "-i", "sine=sample_rate=48000",
      "-t", "2", "-c:v", "libx264", "-bf", "2", "-c:a", "aac", "-f", "mpegts", "-",
    ], { maxBuffer: 1 << 26 });
    const { demuxer, units, broken } = collect();
    for (let at = 0; at < made.stdout.length; at += 1000) demuxer.push(made.stdout.subarray(at, at + 1000));
    const pictures = units.filter((u) => u.track.codec === "h264");
    expect(pictures.length).toBeGreaterThanOrEqual(49);
    expect(pictures.every((u, i) => i === 0 || u.dts - pictures[i - 1]!.dts === 3600)).toBe(true);
    expect(pictures.some((u) => u.pts > u.dts)).toBe(true);
    expect(units.some((u) => u.track.codec === "aac")).toBe(true);
    expect(broken).toEqual([]);
  });
});
