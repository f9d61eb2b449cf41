/**
 * MPEG-TS demultiplexer (ISO/IEC 13818-1): chunks of bytes as the network gave them go in, access units of H.264 (see `pictures`)
 * and the PES payloads of everything else (of AV1 each is a temporal unit) come out, each as early as it can be known to be whole. No clock, no DOM.
 */
import { concat, equalBytes } from "./bits";
import { Pictures, pesHeader } from "./pictures";

export const PACKET_BYTES = 188;
const SYNC = 0x47;
const MAX_PES_BYTES = 16 << 20;
const MAX_SECTION_BYTES = 4096;

/** Sound that is cut into frames here. `mpeg`: MPEG audio of any layer, which only its frames tell. */
export type AudioCodec = "aac" | "opus" | "mpeg" | "ac3" | "eac3";

/** An elementary stream as the PMT describes it. */
export interface Track {
  pid: number;
  kind: "video" | "audio" | "other";
  codec: "h264" | "av1" | AudioCodec | "unsupported";
  /** For people: `H.264`, `MP2`, … */
  name: string;
  /** From the Opus descriptor; 0 where the PMT doesn't say. */
  channels: number;
}

/** An access unit of H.264, or the payload of another stream's PES packet. Times are 33-bit counts of a 90 kHz clock. */
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
  /** What cuts H.264; the rest below is for what is taken by the PES packet. */
  pictures: Pictures | null;
  parts: Uint8Array[];
  length: number;
  /** Bytes that make it whole, -1: open, 0: not known yet. */
  expected: number;
  open: boolean;
  randomAccess: boolean;
  discontinuity: boolean;
  pendingDiscontinuity: boolean;
  counter: number;
  /** When the newest of its bytes came. */
  newestMs: number;
  /** The newest packet was filled up behind its payload. */
  stuffed: boolean;
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
  private touched = new Set<Pictures>();
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
    for (const pictures of this.touched) pictures.chunkEnd();
    // A temporal unit that is too long for a PES packet's length ends where a packet is filled up: the next one is a picture away.
    for (const stream of this.streams.values()) {
      if (stream.track.codec === "av1" && stream.open && stream.expected === -1 && stream.stuffed) this.emit(stream);
    }
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
      const expected = (stream.counter + (hasPayload ? 1 : 0)) & 15;
      const follows = stream.counter < 0 || counter === expected;
      // What begins anew behind an announced jump leaves what was before it as it is.
      if (hasPayload && starts) this.end(stream);
      else if (!follows) drop(stream);
      stream.pendingDiscontinuity = true;
      stream.pictures?.jump();
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
    if (stream.pictures) {
      if (starts) stream.pictures.begin(randomAccess);
      stream.pictures.push(payload, stuffed, this.nowMs);
      this.touched.add(stream.pictures);
      return;
    }
    if (starts) this.begin(stream, randomAccess);
    stream.stuffed = stuffed;
    this.append(stream, payload);
  }

  private begin(stream: Assembly, randomAccess: boolean): void {
    if (stream.open) this.emit(stream);
    stream.open = true;
    stream.parts = [];
    stream.length = 0;
    stream.expected = 0;
    stream.randomAccess = randomAccess;
    stream.discontinuity = stream.pendingDiscontinuity;
    stream.pendingDiscontinuity = false;
  }

  private append(stream: Assembly, payload: Uint8Array): void {
    if (!stream.open) return;
    stream.parts.push(payload.slice());
    stream.length += payload.length;
    stream.newestMs = this.nowMs;
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
    if (stream.expected > 0 && stream.length >= stream.expected) this.emit(stream);
  }

  private emit(stream: Assembly): void {
    const whole = concat(stream.parts);
    const { randomAccess, discontinuity, track, newestMs: receivedMs } = stream;
    const end = stream.expected > 0 ? Math.min(stream.expected, whole.length) : whole.length;
    drop(stream);
    const header = pesHeader(whole.subarray(0, end));
    if (header === null || header === "short" || header.stamps === null) {
      stream.pendingDiscontinuity = true;
      return;
    }
    const data = whole.subarray(header.bytes, end);
    this.handler.unit({ track, ...header.stamps, data, randomAccess, discontinuity, receivedMs });
  }

  /** What is begun ends here: of open length it is whole. */
  private end(stream: Assembly): void {
    stream.pictures?.finish();
    if (stream.open && stream.expected === -1) this.emit(stream);
  }

  private assembly(track: Track): Assembly {
    const stream: Assembly = {
      track, pictures: null, parts: [], length: 0, expected: 0, open: false, randomAccess: false, discontinuity: false,
      pendingDiscontinuity: false, counter: -1, newestMs: NaN, stuffed: false,
    };
    if (track.codec === "h264") {
      stream.pictures = new Pictures(
        (unit) => this.handler.unit({ track: stream.track, ...unit }),
        () => this.handler.broken(stream.track),
      );
    }
    return stream;
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
      } else this.streams.set(track.pid, this.assembly(track));
    }
    // A stream that goes leaves its last picture: one of unknown length ends here.
    for (const stream of old.values()) this.end(stream);
    this.handler.tracks(tracks);
  }
}

function drop(stream: Assembly): void {
  stream.pictures?.lose();
  stream.open = false;
  stream.parts = [];
  stream.length = 0;
  stream.expected = 0;
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

const STREAM_TYPES: Record<number, Omit<Track, "pid" | "channels">> = {
  0x01: { kind: "video", codec: "unsupported", name: "MPEG-1 video" },
  0x02: { kind: "video", codec: "unsupported", name: "MPEG-2 video" },
  0x03: { kind: "audio", codec: "mpeg", name: "MPEG audio" },
  0x04: { kind: "audio", codec: "mpeg", name: "MPEG audio" },
  0x0f: { kind: "audio", codec: "aac", name: "AAC" },
  0x11: { kind: "audio", codec: "unsupported", name: "AAC (LATM)" },
  0x1b: { kind: "video", codec: "h264", name: "H.264" },
  0x24: { kind: "video", codec: "unsupported", name: "H.265" },
  0x81: { kind: "audio", codec: "ac3", name: "AC-3" },
  0x87: { kind: "audio", codec: "eac3", name: "E-AC-3" },
};

function describe(streamType: number, descriptors: Uint8Array): Omit<Track, "pid"> {
  const known = STREAM_TYPES[streamType];
  if (known) return { ...known, channels: 0 };
  let registration = "";
  let channels = 0;
  let dvb: AudioCodec | null = null;
  for (let at = 0; at + 2 <= descriptors.length; at += 2 + descriptors[at + 1]!) {
    const tag = descriptors[at]!;
    const body = descriptors.subarray(at + 2, at + 2 + descriptors[at + 1]!);
    if (tag === 0x05) registration = String.fromCharCode(...body.subarray(0, 4));
    // AC-3 and E-AC-3 as DVB has them (EN 300 468, annex D).
    if (tag === 0x6a) dvb = "ac3";
    if (tag === 0x7a) dvb = "eac3";
    // Extension descriptor 0x80: channel_config_code; 0 is dual mono.
    if (tag === 0x7f && body[0] === 0x80) channels = body[1] === 0 ? 2 : (body[1] ?? 2) & 0x7f;
  }
  if (streamType === 0x06 && registration === "AV01") return { kind: "video", codec: "av1", name: "AV1", channels: 0 };
  // Its pictures are not read here: the page plays them by LL-HLS where the browser decodes them.
  if (streamType === 0x06 && registration === "HEVC") return { kind: "video", codec: "unsupported", name: "H.265", channels: 0 };
  if (streamType === 0x06 && registration === "Opus") return { kind: "audio", codec: "opus", name: "Opus", channels };
  if (streamType === 0x06 && (registration === "AC-3" || (registration === "" && dvb === "ac3"))) return { kind: "audio", codec: "ac3", name: "AC-3", channels: 0 };
  if (streamType === 0x06 && (registration === "EAC3" || (registration === "" && dvb === "eac3"))) return { kind: "audio", codec: "eac3", name: "E-AC-3", channels: 0 };
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
