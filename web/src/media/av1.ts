/**
 * AV1 (AOMedia, "AV1 Bitstream & Decoding Process Specification") as far as a player needs it: the units that MPEG-TS carries
 * ("Carriage of AV1 in MPEG-2 TS": start codes and emulation prevention as in H.264) in, samples of MP4 and WebCodecs out.
 * Bytes come from the network: nothing here throws on bad ones, a parser returns null.
 */
import { BitReader, concat } from "./bits";
import { type AccessUnitInfo, captureTime, CAPTURE_UTC_BYTES, withoutEmulationPrevention } from "./h264";
import { parseStampRecord } from "./stamp_record";
import { findStartCode } from "./unit_finder";

const SEQUENCE_HEADER = 1;
const TEMPORAL_DELIMITER = 2;
const FRAME_HEADER = 3;
const METADATA = 5;
const FRAME = 6;
const REDUNDANT_FRAME_HEADER = 7;
const TILE_LIST = 8;
const PADDING = 15;
/** Metadata with a UUID in front; docs/capture-utc.md. */
const USER_METADATA = 6;

/** An open bitstream unit: `bytes` is all of it, its size included. */
interface Obu {
  type: number;
  payload: Uint8Array;
  bytes: Uint8Array;
}

/** A number of clause 4.10.5 at `at`: it, and where it ends. */
function leb128(data: Uint8Array, at: number): { value: number; end: number } | null {
  let value = 0;
  for (let i = 0; i < 8; i++) {
    const byte = data[at + i];
    if (byte === undefined) return null;
    value += (byte & 0x7f) * 2 ** (7 * i);
    if ((byte & 0x80) === 0) return value < 2 ** 32 ? { value, end: at + i + 1 } : null;
  }
  return null;
}

function writeLeb128(value: number): Uint8Array {
  const bytes: number[] = [];
  do {
    bytes.push((value % 128) | (value >= 128 ? 0x80 : 0));
    value = Math.floor(value / 128);
  } while (value > 0);
  return new Uint8Array(bytes);
}

/** The unit behind a start code. A zero at its end may have been taken for one of the next start code. */
function readObu(escaped: Uint8Array): Obu | null {
  const data = concat([withoutEmulationPrevention(escaped), new Uint8Array(1)]);
  const header = data[0]!;
  const head = header & 4 ? 2 : 1;
  let payload = data.subarray(head, data.length - 1);
  if (header & 2) {
    const size = leb128(data, head);
    if (!size || size.end + size.value > data.length) return null;
    payload = data.subarray(size.end, size.end + size.value);
  }
  const first = new Uint8Array([header | 2, ...data.subarray(1, head)]);
  return { type: (header >> 3) & 15, payload, bytes: concat([first, writeLeb128(payload.length), payload]) };
}

/** The units of a temporal unit; one that is cut off is left out. */
function obus(data: Uint8Array): Obu[] {
  const found: Obu[] = [];
  for (let at = findStartCode(data, 0); at >= 0; ) {
    const next = findStartCode(data, at + 3);
    const escaped = data.subarray(at + 3, next >= 0 ? next : data.length);
    const obu = escaped.length > 0 ? readObu(escaped) : null;
    if (obu) found.push(obu);
    at = next;
  }
  return found;
}

/** What stands for a whole temporal unit in MP4 and in WebCodecs: its units with their sizes. */
export function toSample(data: Uint8Array): Uint8Array<ArrayBuffer> {
  const left = [TEMPORAL_DELIMITER, REDUNDANT_FRAME_HEADER, TILE_LIST, PADDING];
  return concat(obus(data).filter(({ type }) => !left.includes(type)).map(({ bytes }) => bytes));
}

/** Judges a temporal unit as {@link AccessUnitInfo} has it: its sequence header, with its size, stands for `sps`. */
export function inspectAv1(data: Uint8Array): AccessUnitInfo {
  const info: AccessUnitInfo = {
    key: false, idr: false, reference: true, recoveryFrames: null, captureUs: null, record: null, sps: null, pps: null, slices: 0, nals: [],
  };
  for (const { type, payload, bytes } of obus(data)) {
    if (type === SEQUENCE_HEADER) info.sps = bytes;
    else if (type === METADATA) readMetadata(payload, info);
    else if (type === FRAME || type === FRAME_HEADER) {
      const first = payload[0] ?? 0x80;
      // A key frame that is coded here, and shown at once (clause 5.9.2).
      if (info.slices === 0) info.key = info.idr = (first & 0xf0) === 0x10;
      info.slices += 1;
    }
  }
  return info;
}

function readMetadata(payload: Uint8Array, into: AccessUnitInfo): void {
  const type = leb128(payload, 0);
  if (type?.value !== USER_METADATA || into.captureUs !== null) return;
  // What ends it (clause 5.3.4): a one, and zeros.
  const end = payload.lastIndexOf(0x80);
  const data = payload.subarray(type.end, Math.max(type.end, end));
  into.captureUs = captureTime(data);
  if (into.captureUs !== null) into.record = parseStampRecord(data, CAPTURE_UTC_BYTES);
}

/** What a sequence header says that a player uses. */
export interface Av1Parameters {
  /** Largest size, in pixels. */
  width: number;
  height: number;
  /** "AV1 Codec ISO Media File Format Binding" clause 5, such as `av01.0.04M.08`. */
  codecString: string;
  /** The first bytes of `av1C`, behind the version. */
  configuration: readonly [number, number];
}

/** Reads a sequence header (clause 5.5), which stands in `obu` with its size; null where it makes no sense. */
export function parseSequenceHeader(obu: Uint8Array): Av1Parameters | null {
  const size = leb128(obu, obu[0]! & 4 ? 2 : 1);
  if (!size) return null;
  try {
    return readSequenceHeader(new BitReader(obu.subarray(size.end)));
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function readSequenceHeader(bits: BitReader): Av1Parameters | null {
  const profile = bits.bits(3);
  if (profile > 2) return null;
  bits.bit();
  const reduced = bits.bit() === 1;
  const [level, tier] = reduced ? [bits.bits(5), 0] : readPoints(bits);
  const widthBits = bits.bits(4) + 1;
  const heightBits = bits.bits(4) + 1;
  const width = bits.bits(widthBits) + 1;
  const height = bits.bits(heightBits) + 1;
  if (!reduced && bits.bit() === 1) bits.bits(7);
  bits.bits(3);
  if (!reduced) readTools(bits);
  bits.bits(3);
  const deep = bits.bit() === 1;
  const bitDepth = !deep ? 8 : profile === 2 && bits.bit() === 1 ? 12 : 10;
  const mono = profile !== 1 ? bits.bit() : 0;
  const said = bits.bit() === 1;
  const [primaries, transfer, matrix] = said ? [bits.bits(8), bits.bits(8), bits.bits(8)] : [2, 2, 2];
  let range = 1;
  let [across, down, position] = [1, 1, 0];
  if (mono === 1) range = bits.bit();
  else if (primaries === 1 && transfer === 13 && matrix === 0) [across, down] = [0, 0];
  else {
    range = bits.bit();
    if (profile === 1) [across, down] = [0, 0];
    else if (profile === 2 && bitDepth < 12) [across, down] = [1, 0];
    else if (profile === 2) {
      across = bits.bit();
      down = across === 1 ? bits.bit() : 0;
    }
    if (across === 1 && down === 1) position = bits.bits(2);
  }
  const two = (value: number): string => String(value).padStart(2, "0");
  const short = `av01.${profile}.${two(level)}${tier === 1 ? "H" : "M"}.${two(bitDepth)}`;
  const colour = said ? [primaries, transfer, matrix] : [1, 1, 1];
  const usual = mono === 0 && across === 1 && down === 1 && position === 0 && range === 0 && colour.every((point) => point === 1);
  const codecString = usual ? short : `${short}.${mono}.${across}${down}${position}.${colour.map(two).join(".")}.${range}`;
  const flags = [tier, Number(deep), Number(bitDepth === 12), mono, across, down].reduce((sum, bit) => sum * 2 + bit, 0);
  return { width, height, codecString, configuration: [(profile << 5) | level, (flags << 2) | position] };
}

/** Level and tier of the first operating point. */
function readPoints(bits: BitReader): [level: number, tier: number] {
  let delayBits = 0;
  if (bits.bit() === 1) {
    bits.bits(32);
    bits.bits(32);
    if (bits.bit() === 1) bits.unsigned();
    if (bits.bit() === 1) {
      delayBits = bits.bits(5) + 1;
      bits.bits(32);
      bits.bits(10);
    }
  }
  const hasDisplayDelay = bits.bit() === 1;
  const count = bits.bits(5) + 1;
  let first: [number, number] | null = null;
  for (let i = 0; i < count; i++) {
    bits.bits(12);
    const level = bits.bits(5);
    const tier = level > 7 ? bits.bit() : 0;
    if (delayBits > 0 && bits.bit() === 1) {
      bits.bits(delayBits);
      bits.bits(delayBits);
      bits.bit();
    }
    if (hasDisplayDelay && bits.bit() === 1) bits.bits(4);
    first ??= [level, tier];
  }
  return first!;
}

/** Passes over which tools of prediction there are. */
function readTools(bits: BitReader): void {
  bits.bits(4);
  const ordered = bits.bit() === 1;
  if (ordered) bits.bits(2);
  const screen = bits.bit() === 1 || bits.bit() === 1;
  if (screen && bits.bit() === 0) bits.bit();
  if (ordered) bits.bits(3);
}
