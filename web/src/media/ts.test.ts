import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { AUDIO_PID, TsBuilder, VIDEO_PID, association, pes, picture, random } from "../testing/ts_builder";
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

  it("emits a PES of known length at its last byte", () => {
    const builder = new TsBuilder();
    const { demuxer, units } = collect();
    demuxer.push(builder.tables());
    const packets = video(builder, 0, 1, true);
    demuxer.push(packets.subarray(0, packets.length - 1));
    expect(units).toHaveLength(0);
    demuxer.push(packets.subarray(packets.length - 1));
    expect(units).toHaveLength(1);
    expect(units[0]!.data).toEqual(picture(true, 1, 100));
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
    demuxer.push(video(builder, 0, 1, true));
    demuxer.push(builder.packets(0, [association(1, [[7, 0x1200], [1, 0x1000]])]));
    demuxer.push(builder.map(null, { program: 7, pmt: 0x1200, video: 0x300 }));
    demuxer.push(builder.map(null, { program: 7, video: 0x300, version: 1 }));
    demuxer.push(video(builder, 1, 1, true));
    demuxer.push(video(builder, 1, 1, true, 0x300));
    expect(tracks.map((list) => list.map((t) => t.pid))).toEqual([[VIDEO_PID]]);
    expect(units.map((u) => [u.track.pid, u.pts])).toEqual([[VIDEO_PID, 0], [VIDEO_PID, 3600]]);
    // It is gone: the first of the others takes its place.
    demuxer.push(builder.packets(0, [association(2, [[7, 0x1200]])]));
    demuxer.push(builder.map(null, { program: 7, pmt: 0x1200, video: 0x300 }));
    demuxer.push(video(builder, 2, 1, true, 0x300));
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
