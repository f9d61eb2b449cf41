/**
 * MPEG-TS demultiplexer (ISO/IEC 13818-1): chunks of bytes as the network gave them go in, PES payloads come out,
 * each as early as it can be known to be whole. No clock, no DOM.
 *
 * A PES with a length is whole at its last byte. One without (video, as a rule) is whole when the next begins, one
 * picture later, unless its muxer marks the end as ours does: with a NAL unit of filler data without filler at the end
 * of a packet. To save that picture's time it is also taken as whole when a chunk ends behind a packet with
 * stuffing, provided that it holds as many slices as all recent pictures did. (An encoder that sends slices as they
 * are finished stuffs packets inside a picture, so stuffing alone proves nothing.)
 */
import { concat, equalBytes } from "./bits";
import { isSlice, nalUnits } from "./h264";

export const PACKET_BYTES = 188;
const SYNC = 0x47;
const MAX_PES_BYTES = 16 << 20;
const MAX_SECTION_BYTES = 4096;
/** So many pictures with the same number of slices make the number trustworthy. */
const STEADY_PICTURES = 8;

/** What our muxer ends a unit of open length with; it is never cut in two. */
const END_OF_UNIT = [0, 0, 1, 12, 0x80];

/** An elementary stream as the PMT describes it. */
export interface Track {
  pid: number;
  kind: "video" | "audio" | "other";
  codec: "h264" | "aac" | "opus" | "unsupported";
  /** For people: `H.264`, `MP2`, … */
  name: string;
  /** From the Opus descriptor; 0 where the PMT doesn't say. */
  channels: number;
}

/** A PES packet's payload. Times are 33-bit counts of a 90 kHz clock. */
export interface PesUnit {
  track: Track;
  pts: number;
  dts: number;
  data: Uint8Array;
  /** random_access_indicator was set where it began. */
  randomAccess: boolean;
  /** Bytes were lost, or discontinuity_indicator was set, at or before its begin. */
  discontinuity: boolean;
  /** When its last byte came, as `push` was told; NaN: nobody said. */
  receivedMs: number;
}

export interface DemuxHandler {
  /** The PMT is new or has changed. */
  tracks(tracks: readonly Track[]): void;
  unit(unit: PesUnit): void;
  /** A picture was emitted too early: its decoder state is damaged until the next key frame. */
  broken(track: Track): void;
}

interface Assembly {
  track: Track;
  parts: Uint8Array[];
  length: number;
  /** Bytes that make it whole, 0: not known. */
  expected: number;
  open: boolean;
  randomAccess: boolean;
  discontinuity: boolean;
  pendingDiscontinuity: boolean;
  counter: number;
  endsWithStuffing: boolean;
  /** Emitted before the next PES began: what follows is kept here to see whether that was right. */
  tail: Uint8Array[] | null;
  tailBytes: number;
  mayGuess: boolean;
  recentSlices: number[];
  /** When the newest of its bytes came. */
  newestMs: number;
}

interface SectionAssembly {
  parts: Uint8Array[];
  length: number;
  open: boolean;
}

export class TsDemuxer {
  private rest: Uint8Array = new Uint8Array(0);
  /** The program that is followed for as long as the PAT lists it: its number and its PMT's PID. */
  private program = -1;
  private pmtPid = -1;
  private lastPmt: Uint8Array | null = null;
  private readonly sections = new Map<number, SectionAssembly>();
  private readonly streams = new Map<number, Assembly>();
  private touched = new Set<Assembly>();
  private nowMs = NaN;
  /** Counts for statistics. */
  continuityErrors = 0;
  packets = 0;

  constructor(private readonly handler: DemuxHandler) {}

  /** Forgets everything but the handler: for a new connection. */
  reset(): void {
    this.rest = new Uint8Array(0);
    this.program = -1;
    this.pmtPid = -1;
    this.lastPmt = null;
    this.sections.clear();
    this.streams.clear();
    this.touched.clear();
  }

  /** Takes the next bytes, cut anywhere, which came at `nowMs`, and emits what they complete. */
  push(chunk: Uint8Array, nowMs = NaN): void {
    this.nowMs = nowMs;
    const data = this.rest.length > 0 ? concat([this.rest, chunk]) : chunk;
    this.touched.clear();
    let at = 0;
    while (at + PACKET_BYTES <= data.length) {
      if (data[at] !== SYNC) {
        at = nextSync(data, at + 1);
        continue;
      }
      this.packet(data.subarray(at, at + PACKET_BYTES));
      at += PACKET_BYTES;
    }
    this.rest = data.slice(at);
    for (const stream of this.touched) this.emitIfWhole(stream);
  }

  private packet(packet: Uint8Array): void {
    this.packets += 1;
    if (packet[1]! & 0x80) return; // transport_error_indicator
    const pid = ((packet[1]! & 0x1f) << 8) | packet[2]!;
    const starts = (packet[1]! & 0x40) !== 0;
    const control = (packet[3]! >> 4) & 3;
    const scrambled = packet[3]! >> 6 !== 0;
    const counter = packet[3]! & 15;
    let at = 4;
    let randomAccess = false;
    let discontinuity = false;
    let stuffed = false;
    if (control & 2) {
      const length = packet[4]!;
      if (length > 183) return;
      const flags = length > 0 ? packet[5]! : 0;
      randomAccess = (flags & 0x40) !== 0;
      discontinuity = (flags & 0x80) !== 0;
      stuffed = length > adaptationBytes(flags, packet);
      at = 5 + length;
    }
    const hasPayload = (control & 1) !== 0 && !scrambled;
    const payload = hasPayload ? packet.subarray(at) : packet.subarray(PACKET_BYTES);
    if (pid === 0 || pid === this.pmtPid) {
      if (hasPayload) this.section(pid, payload, starts);
      return;
    }
    const stream = this.streams.get(pid);
    if (!stream) return;
    if (discontinuity) {
      stream.pendingDiscontinuity = true;
      stream.counter = -1;
    }
    if (!hasPayload) return;
    if (stream.counter >= 0 && counter !== ((stream.counter + 1) & 15)) {
      if (counter === stream.counter) return; // a packet may be sent twice
      this.continuityErrors += 1;
      drop(stream);
      stream.pendingDiscontinuity = true;
    }
    stream.counter = counter;
    if (starts) this.begin(stream, randomAccess);
    this.append(stream, payload, stuffed);
  }

  private begin(stream: Assembly, randomAccess: boolean): void {
    if (stream.tail) this.judgeTail(stream);
    if (stream.open) this.emit(stream, false);
    stream.open = true;
    stream.parts = [];
    stream.length = 0;
    stream.expected = 0;
    stream.randomAccess = randomAccess;
    stream.discontinuity = stream.pendingDiscontinuity;
    stream.pendingDiscontinuity = false;
  }

  private append(stream: Assembly, payload: Uint8Array, stuffed: boolean): void {
    if (!stream.open) {
      if (stream.tail && stream.tailBytes + payload.length <= MAX_PES_BYTES) {
        stream.tail.push(payload.slice());
        stream.tailBytes += payload.length;
      }
      return;
    }
    stream.parts.push(payload.slice());
    stream.length += payload.length;
    stream.newestMs = this.nowMs;
    stream.endsWithStuffing = stuffed;
    if (stream.length > MAX_PES_BYTES) {
      drop(stream);
      stream.pendingDiscontinuity = true;
      return;
    }
    if (stream.expected === 0 && stream.length >= 6) {
      const head = stream.parts.length === 1 ? payload : concat(stream.parts);
      const length = (head[4]! << 8) | head[5]!;
      stream.expected = length > 0 ? 6 + length : -1;
    }
    const marked = stream.expected === -1 && stream.track.codec === "h264" && endsUnit(payload);
    if (marked || (stream.expected > 0 && stream.length >= stream.expected)) this.emit(stream, false);
    else this.touched.add(stream);
  }

  /** At a chunk's end: a PES of unknown length that ends with stuffing and has all its slices goes out now. */
  private emitIfWhole(stream: Assembly): void {
    if (!stream.open || stream.expected !== -1 || !stream.endsWithStuffing) return;
    if (!stream.mayGuess || stream.track.codec !== "h264") return;
    const slices = stream.recentSlices[0];
    if (slices === undefined || stream.recentSlices.length < STEADY_PICTURES) return;
    if (stream.recentSlices.some((count) => count !== slices)) return;
    if (countSlices(concat(stream.parts)) === slices) this.emit(stream, true);
  }

  private emit(stream: Assembly, early: boolean): void {
    const whole = concat(stream.parts);
    const { randomAccess, discontinuity, track, newestMs: receivedMs } = stream;
    const mark = track.codec === "h264" && endsUnit(whole) ? END_OF_UNIT.length : 0;
    const end = stream.expected > 0 ? Math.min(stream.expected, whole.length) : whole.length - mark;
    drop(stream);
    if (early) {
      stream.tail = [];
      stream.tailBytes = 0;
    }
    const header = pesHeader(whole.subarray(0, end));
    if (!header) {
      stream.pendingDiscontinuity = true;
      return;
    }
    const data = whole.subarray(header.bytes, end);
    if (track.codec === "h264" && stream.mayGuess) {
      stream.recentSlices.push(countSlices(data));
      if (stream.recentSlices.length > STEADY_PICTURES) stream.recentSlices.shift();
    }
    this.handler.unit({ track, pts: header.pts, dts: header.dts, data, randomAccess, discontinuity, receivedMs });
  }

  private judgeTail(stream: Assembly): void {
    const tail = concat(stream.tail ?? []);
    stream.tail = null;
    if (tail.length === 0) return;
    const nals = nalUnits(tail);
    const startsWithNal = tail[0] === 0 && tail[1] === 0 && tail[2]! <= 1;
    if (startsWithNal && !nals.some(isSlice)) return; // filler data, nothing of the picture
    stream.mayGuess = false;
    stream.recentSlices = [];
    this.handler.broken(stream.track);
  }

  private section(pid: number, payload: Uint8Array, starts: boolean): void {
    let section = this.sections.get(pid);
    if (!section) {
      section = { parts: [], length: 0, open: false };
      this.sections.set(pid, section);
    }
    let body = payload;
    if (starts) {
      body = payload.subarray(1 + (payload[0] ?? 0));
      section.parts = [];
      section.length = 0;
      section.open = true;
    } else if (!section.open) return;
    section.parts.push(body.slice());
    section.length += body.length;
    if (section.length < 3) return;
    const data = concat(section.parts);
    const total = 3 + (((data[1]! & 15) << 8) | data[2]!);
    if (total > MAX_SECTION_BYTES) section.open = false;
    if (section.length < total || !section.open) return;
    section.open = false;
    const table = data.subarray(0, total);
    if (total < 12 || crc32(table) !== 0) return;
    if ((table[5]! & 1) === 0) return; // not yet in force
    if (pid === 0 && table[0] === 0) this.programAssociation(table);
    else if (pid === this.pmtPid && table[0] === 2) this.programMap(table);
  }

  private programAssociation(table: Uint8Array): void {
    let first: [number, number] | null = null;
    for (let at = 8; at + 4 <= table.length - 4; at += 4) {
      const program = (table[at]! << 8) | table[at + 1]!;
      if (program === 0) continue;
      const pid = ((table[at + 2]! & 0x1f) << 8) | table[at + 3]!;
      if (program === this.program && pid === this.pmtPid) return;
      first ??= [program, pid];
    }
    if (!first) return;
    this.sections.delete(this.pmtPid);
    [this.program, this.pmtPid] = first;
  }

  private programMap(table: Uint8Array): void {
    // Several programs may share a PID.
    if (((table[3]! << 8) | table[4]!) !== this.program || equalBytes(table, this.lastPmt)) return;
    this.lastPmt = table.slice();
    const tracks: Track[] = [];
    const end = table.length - 4;
    let at = 12 + (((table[10]! & 15) << 8) | table[11]!);
    while (at + 5 <= end) {
      const pid = ((table[at + 1]! & 0x1f) << 8) | table[at + 2]!;
      const length = ((table[at + 3]! & 15) << 8) | table[at + 4]!;
      const descriptors = table.subarray(at + 5, Math.min(at + 5 + length, end));
      tracks.push({ pid, ...describe(table[at]!, descriptors) });
      at += 5 + length;
    }
    const old = new Map(this.streams);
    this.streams.clear();
    for (const track of tracks) {
      const known = old.get(track.pid);
      if (known && known.track.codec === track.codec) {
        this.streams.set(track.pid, Object.assign(known, { track }));
        old.delete(track.pid);
      } else this.streams.set(track.pid, emptyAssembly(track));
    }
    // A stream that goes leaves its last picture: one of unknown length ends here.
    for (const stream of old.values()) if (stream.open && stream.expected === -1) this.emit(stream, false);
    this.handler.tracks(tracks);
  }
}

function emptyAssembly(track: Track): Assembly {
  return {
    track, parts: [], length: 0, expected: 0, open: false, randomAccess: false, discontinuity: false,
    pendingDiscontinuity: false, counter: -1, endsWithStuffing: false, tail: null, tailBytes: 0, mayGuess: true,
    recentSlices: [], newestMs: NaN,
  };
}

function drop(stream: Assembly): void {
  stream.open = false;
  stream.parts = [];
  stream.length = 0;
  stream.expected = 0;
  stream.tail = null;
}

function endsUnit(data: Uint8Array): boolean {
  const start = data.length - END_OF_UNIT.length;
  return start >= 0 && END_OF_UNIT.every((byte, index) => data[start + index] === byte);
}

function countSlices(data: Uint8Array): number {
  return nalUnits(data).filter(isSlice).length;
}

/** Where a packet may begin: two sync bytes a packet apart, or one where the data ends before that. */
function nextSync(data: Uint8Array, from: number): number {
  for (let at = from; at < data.length; at++) {
    if (data[at] !== SYNC) continue;
    if (at + PACKET_BYTES >= data.length || data[at + PACKET_BYTES] === SYNC) return at;
  }
  return data.length;
}

/** Bytes of an adaptation field that mean something; what goes beyond is stuffing. */
function adaptationBytes(flags: number, packet: Uint8Array): number {
  let used = 1;
  if (flags & 0x10) used += 6;
  if (flags & 0x08) used += 6;
  if (flags & 0x04) used += 1;
  if (flags & 0x02) used += 1 + (packet[5 + used] ?? 0);
  if (flags & 0x01) used += 1 + (packet[5 + used] ?? 0);
  return used;
}

function timeStamp(data: Uint8Array, at: number): number {
  return (
    ((data[at]! >> 1) & 7) * 2 ** 30 + (data[at + 1]! << 22) + ((data[at + 2]! >> 1) << 15) + (data[at + 3]! << 7) +
    (data[at + 4]! >> 1)
  );
}

function pesHeader(data: Uint8Array): { bytes: number; pts: number; dts: number } | null {
  if (data.length < 9 || data[0] !== 0 || data[1] !== 0 || data[2] !== 1) return null;
  const bytes = 9 + data[8]!;
  const flags = data[7]! >> 6;
  if (bytes > data.length || (flags & 2) === 0 || data[8]! < (flags === 3 ? 10 : 5)) return null;
  const pts = timeStamp(data, 9);
  return { bytes, pts, dts: flags === 3 ? timeStamp(data, 14) : pts };
}

const STREAM_TYPES: Record<number, Omit<Track, "pid" | "channels">> = {
  0x01: { kind: "video", codec: "unsupported", name: "MPEG-1 video" },
  0x02: { kind: "video", codec: "unsupported", name: "MPEG-2 video" },
  0x03: { kind: "audio", codec: "unsupported", name: "MP2" },
  0x04: { kind: "audio", codec: "unsupported", name: "MP2" },
  0x0f: { kind: "audio", codec: "aac", name: "AAC" },
  0x11: { kind: "audio", codec: "unsupported", name: "AAC (LATM)" },
  0x1b: { kind: "video", codec: "h264", name: "H.264" },
  0x24: { kind: "video", codec: "unsupported", name: "H.265" },
  0x81: { kind: "audio", codec: "unsupported", name: "AC-3" },
  0x87: { kind: "audio", codec: "unsupported", name: "E-AC-3" },
};

function describe(streamType: number, descriptors: Uint8Array): Omit<Track, "pid"> {
  const known = STREAM_TYPES[streamType];
  if (known) return { ...known, channels: 0 };
  let registration = "";
  let channels = 0;
  for (let at = 0; at + 2 <= descriptors.length; at += 2 + descriptors[at + 1]!) {
    const tag = descriptors[at]!;
    const body = descriptors.subarray(at + 2, at + 2 + descriptors[at + 1]!);
    if (tag === 0x05) registration = String.fromCharCode(...body.subarray(0, 4));
    // Extension descriptor 0x80: channel_config_code; 0 is dual mono.
    if (tag === 0x7f && body[0] === 0x80) channels = body[1] === 0 ? 2 : (body[1] ?? 2) & 0x7f;
  }
  if (streamType === 0x06 && registration === "Opus") return { kind: "audio", codec: "opus", name: "Opus", channels };
  if (registration === "BSSD") return { kind: "audio", codec: "unsupported", name: "S302M", channels: 0 };
  return { kind: "other", codec: "unsupported", name: `stream type 0x${streamType.toString(16)}`, channels: 0 };
}

/** CRC-32 of ISO/IEC 13818-1 annex A; over a section with its CRC it is 0. */
export function crc32(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) {
    crc ^= byte << 24;
    for (let i = 0; i < 8; i++) crc = crc & 0x80000000 ? (crc << 1) ^ 0x04c11db7 : crc << 1;
  }
  return crc >>> 0;
}
