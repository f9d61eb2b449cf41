/** Builds MPEG-TS by hand for tests: what a multiplexer may do, and what it should not. */
import { concat } from "../media/bits";
import { crc32 } from "../media/ts";

export const VIDEO_PID = 0x100;
export const AUDIO_PID = 0x101;
const PMT_PID = 0x1000;

/** A small generator of numbers that look random, from a seed (mulberry32). */
export function random(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** An Annex B access unit of `slices` slices with `bytes` bytes each; a key one carries SPS and PPS. */
export function picture(key: boolean, slices = 1, bytes = 300, parameterSets = "6742c020d9005005bb016a020202800000030080000032078c1924 68cb8cb2"): Uint8Array {
  const start = new Uint8Array([0, 0, 0, 1]);
  const parts: Uint8Array[] = [start, new Uint8Array([9, 0xf0])];
  if (key) for (const set of parameterSets.split(" ")) parts.push(start, hex(set));
  for (let i = 0; i < slices; i++) parts.push(start, new Uint8Array([key ? 0x65 : 0x41]), new Uint8Array(bytes).fill(0x55 + i));
  return concat(parts);
}

/** What our muxer ends a picture with, so that receivers need not wait for the next one. */
const END_OF_UNIT = new Uint8Array([0, 0, 1, 12, 0x80]);

/** A picture as our muxer ends it. */
export function ended(picture: Uint8Array): Uint8Array {
  return concat([picture, END_OF_UNIT]);
}

export function hex(text: string): Uint8Array {
  return new Uint8Array((text.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));
}

/** A PES with PTS (and DTS); `bounded` writes its length. */
export function pes(streamId: number, pts: number, dts: number, data: Uint8Array, bounded: boolean): Uint8Array {
  const stamp = (prefix: number, t: number): number[] => [
    (prefix << 4) | ((Math.floor(t / 2 ** 30) & 7) << 1) | 1, Math.floor(t / 2 ** 22) & 255,
    ((Math.floor(t / 2 ** 15) & 127) << 1) | 1, Math.floor(t / 2 ** 7) & 255, ((t & 127) << 1) | 1,
  ];
  const stamps = pts === dts ? stamp(2, pts) : [...stamp(3, pts), ...stamp(1, dts)];
  const length = bounded ? 3 + stamps.length + data.length : 0;
  const flags = pts === dts ? 0x80 : 0xc0;
  const head = [0, 0, 1, streamId, length >> 8, length & 255, 0x80, flags, stamps.length, ...stamps];
  return concat([new Uint8Array(head), data]);
}

export class TsBuilder {
  private readonly counters = new Map<number, number>();

  /** Packets of one PID. Each part of `parts` ends a packet, with stuffing where it doesn't fill it. */
  packets(pid: number, parts: readonly Uint8Array[], flags: { random?: boolean; discontinuity?: boolean } = {}): Uint8Array {
    const out: Uint8Array[] = [];
    let first = true;
    for (const part of parts) {
      for (let at = 0; at < part.length; ) {
        const bits = first ? (flags.random ? 0x40 : 0) | (flags.discontinuity ? 0x80 : 0) : 0;
        const room = bits ? 182 : 184;
        const take = Math.min(room, part.length - at);
        out.push(this.packet(pid, first, part.subarray(at, at + take), bits));
        at += take;
        first = false;
      }
    }
    return concat(out);
  }

  private packet(pid: number, starts: boolean, payload: Uint8Array, flags: number): Uint8Array {
    const counter = this.counters.get(pid) ?? 0;
    this.counters.set(pid, (counter + 1) & 15);
    const packet = new Uint8Array(188).fill(0xff);
    const field = 184 - payload.length;
    packet.set([0x47, (starts ? 0x40 : 0) | (pid >> 8), pid & 255, (field > 0 ? 0x30 : 0x10) | counter]);
    if (field > 0) packet[4] = field - 1;
    if (field > 1) packet[5] = flags;
    packet.set(payload, 188 - payload.length);
    return packet;
  }

  /** PAT and PMT: the pictures, and `audio` where it is wanted. */
  tables(audio: "opus" | "aac" | null = null, layout: Partial<Layout> = {}): Uint8Array {
    const { pmt, version, program, others } = { ...LAYOUT, ...layout };
    const pat = association(version, [[program, pmt], ...others]);
    return concat([fillSections(this.packets(0, [pat])), this.map(audio, layout)]);
  }

  /** PAT, and a PMT with these streams: their types, PIDs and descriptors. */
  program(streams: readonly (readonly [type: number, pid: number, descriptors?: readonly number[]])[], layout: Partial<Layout> = {}): Uint8Array {
    const { pmt, version, program } = { ...LAYOUT, ...layout };
    const rows = streams.flatMap(([type, pid, own = []]) => [type, 0xe0 | (pid >> 8), pid & 255, 0xf0, own.length, ...own]);
    const clock = streams[0]?.[1] ?? 0x1fff;
    const body = [0xe0 | (clock >> 8), clock & 255, 0xf0, 0, ...rows];
    const pat = fillSections(this.packets(0, [association(version, [[program, pmt]])]));
    return concat([pat, fillSections(this.packets(pmt, [section(2, program, version, body)]))]);
  }

  /** The PMT alone. */
  map(audio: "opus" | "aac" | null, layout: Partial<Layout> = {}): Uint8Array {
    const { video, sound, pmt, version, program, codec } = { ...LAYOUT, ...layout };
    const pictures = [0xe0 | (video >> 8), video & 255, 0xf0];
    const streams = codec === "h264" ? [0x1b, ...pictures, 0] : [0x06, ...pictures, 6, 5, 4, 0x41, 0x56, 0x30, 0x31];
    const pid = [0xe0 | (sound >> 8), sound & 255];
    if (audio === "aac") streams.push(0x0f, ...pid, 0xf0, 0);
    if (audio === "opus") streams.push(0x06, ...pid, 0xf0, 10, 5, 4, 0x4f, 0x70, 0x75, 0x73, 0x7f, 2, 0x80, 2);
    const body = [0xe0 | (video >> 8), video & 255, 0xf0, 0, ...streams];
    return fillSections(this.packets(pmt, [section(2, program, version, body)]));
  }
}

/** Where a program lies; `others` are further programs' numbers and PIDs in the PAT. */
interface Layout {
  video: number;
  sound: number;
  pmt: number;
  version: number;
  program: number;
  others: readonly (readonly [number, number])[];
  codec: "h264" | "av1";
}

const LAYOUT: Layout = { video: VIDEO_PID, sound: AUDIO_PID, pmt: PMT_PID, version: 0, program: 1, others: [], codec: "h264" };

/** A PAT: programs' numbers and the PIDs of their PMTs, in this order. */
export function association(version: number, programs: readonly (readonly [number, number])[]): Uint8Array {
  return section(0, 1, version, programs.flatMap(([number, pid]) => [number >> 8, number & 255, 0xe0 | (pid >> 8), pid & 255]));
}

/** Behind a section come 0xFF bytes in the payload, rather than an adaptation field. */
function fillSections(packet: Uint8Array): Uint8Array {
  const field = packet[3]! & 0x20 ? 1 + packet[4]! : 0;
  const out = new Uint8Array(188).fill(0xff);
  out.set(packet.subarray(0, 4));
  out[3]! &= 0xdf;
  out.set(packet.subarray(4 + field), 4);
  return out;
}

function section(table: number, id: number, version: number, body: readonly number[]): Uint8Array {
  const length = 5 + body.length + 4;
  const numbers = [id >> 8, id & 255, 0xc1 | (version << 1), 0, 0];
  const bytes = new Uint8Array([table, 0xb0 | (length >> 8), length & 255, ...numbers, ...body]);
  const crc = crc32(bytes);
  return concat([new Uint8Array([0]), bytes, new Uint8Array([crc >>> 24, (crc >> 16) & 255, (crc >> 8) & 255, crc & 255])]);
}
