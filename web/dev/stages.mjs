// A stream whose pictures say when they were captured and which stages they passed (docs/capture-utc.md), the same times for
// each: out of raw H.264 with access unit delimiters, in an MPEG-TS of the mock's own.
const UUID = Buffer.from("9d1f3c526b0e4f7a8c21676c6c636170", "hex");
const START = Buffer.from([0, 0, 0, 1]);
const END_OF_UNIT = Buffer.from([0, 0, 1, 12, 0x80]);

/** What each picture says, in µs after its capture: beside the way are the first slice and the first packet. */
export const STAGES = { arrived: 500, queued: 600, encoderIn: 1000, firstSlice: 4000, firstSent: 4100, encoded: 12_000, muxed: 12_300, sent: 13_000 };
/** What the relay says, in µs after capture. */
export const RELAY = { relay_first_byte: 4300, relay_received: 13_100, relay_flushed: 13_150, relay_sent: 13_600 };

function value(micros) {
  const bytes = [];
  for (; micros >= 0x80; micros >>= 7) bytes.push((micros & 0x7f) | 0x80);
  return [...bytes, micros];
}

/** The message of a picture captured at `capturedUs`, `agoUs` after the one before. */
export function message(capturedUs, agoUs) {
  const own = [STAGES.arrived, STAGES.queued, STAGES.encoderIn];
  const behind = [STAGES.firstSlice, STAGES.firstSent, STAGES.encoded, STAGES.muxed, STAGES.sent];
  const time = Buffer.alloc(8);
  time.writeBigUInt64BE(BigInt(capturedUs) * 1000n);
  const record = [1, 11, agoUs === null ? 0x07 : 0xff, ...own.flatMap(value), ...(agoUs === null ? [] : [agoUs, ...behind].flatMap(value))];
  const payload = Buffer.concat([UUID, time, Buffer.from(record)]);
  const out = [];
  let zeros = 0;
  for (const byte of [5, payload.length, ...payload, 0x80]) {
    if (zeros >= 2 && byte <= 3) {
      out.push(3);
      zeros = 0;
    }
    out.push(byte);
    zeros = byte === 0 ? zeros + 1 : 0;
  }
  return Buffer.concat([START, Buffer.from([6]), Buffer.from(out)]);
}

/** Cuts raw H.264 into access units: one begins with each delimiter. */
export class AccessUnits {
  rest = Buffer.alloc(0);

  push(bytes) {
    const units = [];
    this.rest = Buffer.concat([this.rest, bytes]);
    for (;;) {
      const next = this.rest.indexOf(Buffer.from([0, 0, 0, 1, 9]), 5);
      if (next < 0) return units;
      units.push(this.rest.subarray(0, next));
      this.rest = this.rest.subarray(next);
    }
  }
}

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte << 24;
    for (let i = 0; i < 8; i++) crc = crc & 0x80000000 ? (crc << 1) ^ 0x04c11db7 : crc << 1;
  }
  return crc >>> 0;
}

function section(table, id, body) {
  const bytes = Buffer.from([table, 0xb0, body.length + 9, id >> 8, id & 255, 0xc1, 0, 0, ...body]);
  const crc = Buffer.alloc(4);
  crc.writeUInt32BE(crc32(bytes));
  return Buffer.concat([Buffer.from([0]), bytes, crc]);
}

/** One program of one H.264 track, on the PIDs that FFmpeg gives. */
export class Muxer {
  counters = new Map();

  /** The picture's packets, with the tables in front of a key frame. */
  picture(unit, pts, isKey) {
    const stamp = [(2 << 4) | (Math.floor(pts / 2 ** 30) << 1) | 1, Math.floor(pts / 2 ** 22) & 255, ((Math.floor(pts / 2 ** 15) & 127) << 1) | 1,
      Math.floor(pts / 128) & 255, ((pts & 127) << 1) | 1];
    const pes = Buffer.concat([Buffer.from([0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, ...stamp]), unit, END_OF_UNIT]);
    const tables = isKey ? [this.packets(0, section(0, 1, [0, 1, 0xf0, 0]), false), this.packets(4096, section(2, 1, [0xe1, 0, 0xf0, 0, 0x1b, 0xe1, 0, 0xf0, 0]), false)] : [];
    return Buffer.concat([...tables, this.packets(256, pes, isKey)]);
  }

  packets(pid, data, isKey) {
    const out = [];
    for (let at = 0; at < data.length; ) {
      const flags = at === 0 && isKey ? 0x40 : 0;
      const payload = data.subarray(at, at + (flags ? 182 : 184));
      const counter = this.counters.get(pid) ?? 0;
      this.counters.set(pid, (counter + 1) & 15);
      const field = 184 - payload.length;
      const packet = Buffer.alloc(188, 0xff);
      packet.set([0x47, (at === 0 ? 0x40 : 0) | (pid >> 8), pid & 255, (field > 0 ? 0x30 : 0x10) | counter]);
      if (field > 0) packet[4] = field - 1;
      if (field > 1) packet[5] = flags;
      packet.set(payload, 188 - payload.length);
      out.push(packet);
      at += payload.length;
    }
    return Buffer.concat(out);
  }
}
