/**
 * H.264 in Annex B form (ISO/IEC 14496-10): finding NAL units, reading the SPS, judging an access unit.
 * Bytes come from the network: nothing here throws on bad ones, a parser returns null.
 */
import { BitReader } from "./bits";
import { type StampRecord, parseStampRecord } from "./stamp_record";

/** A NAL unit inside an Annex B byte string: `start` is its header byte, `end` is past its last byte. */
export interface Nal {
  type: number;
  refIdc: number;
  start: number;
  end: number;
}

const SLICE = 1;
const IDR = 5;
const SEI = 6;
const SPS = 7;
const PPS = 8;
const USER_DATA_UNREGISTERED = 5;
const RECOVERY_POINT = 6;
/** Of the message that says when a picture was captured; docs/capture-utc.md. */
const CAPTURE_UTC_UUID = [0x9d, 0x1f, 0x3c, 0x52, 0x6b, 0x0e, 0x4f, 0x7a, 0x8c, 0x21, 0x67, 0x6c, 0x6c, 0x63, 0x61, 0x70];
export const CAPTURE_UTC_BYTES = 24;

/** All NAL units of `data`, in order. Bytes before the first start code are skipped. One pass over the bytes. */
export function nalUnits(data: Uint8Array): Nal[] {
  const found: Nal[] = [];
  let open: Nal | null = null;
  const close = (end: number): void => {
    if (!open) return;
    let last = end;
    while (last > open.start && data[last - 1] === 0) last -= 1;
    open.end = last;
    if (last > open.start) found.push(open);
  };
  let i = 0;
  while (i + 3 < data.length) {
    // Most bytes are above 1: three can be skipped at a time.
    if (data[i + 2]! > 1) i += 3;
    else if (data[i] === 0 && data[i + 1] === 0 && data[i + 2] === 1) {
      close(i);
      const header = data[i + 3]!;
      open = { type: header & 0x1f, refIdc: (header >> 5) & 3, start: i + 3, end: i + 3 };
      i += 3;
    } else i += 1;
  }
  close(data.length);
  return found;
}

/** Whether a NAL unit carries a part of the picture. */
export function isSlice(nal: Nal): boolean {
  return nal.type >= SLICE && nal.type <= IDR;
}

/** What a player must know about an access unit before it decodes it. */
export interface AccessUnitInfo {
  /** Decoding can start here: an IDR picture, or a recovery point with its parameter sets (intra refresh). */
  key: boolean;
  /** An IDR picture is in it: any decoder starts here. */
  idr: boolean;
  /** Other pictures may refer to this one. */
  reference: boolean;
  /** A recovery point: pictures from here on until all are right, where decoding starts here; null: none. */
  recoveryFrames: number | null;
  /** When it was captured, UTC in µs, as its encoder says; null where it doesn't. */
  captureUs: number | null;
  /** What its sender says of its stages, behind the capture time; null where it doesn't. */
  record: StampRecord | null;
  /** Of AV1 the sequence header, which has nothing beside it. */
  sps: Uint8Array | null;
  pps: Uint8Array | null;
  slices: number;
  nals: Nal[];
}

/** Judges an access unit by its NAL units. */
export function inspect(data: Uint8Array): AccessUnitInfo {
  const nals = nalUnits(data);
  const info: AccessUnitInfo = {
    key: false, idr: false, reference: false, recoveryFrames: null, captureUs: null, record: null, sps: null, pps: null, slices: 0, nals,
  };
  for (const nal of nals) {
    if (isSlice(nal)) {
      info.slices += 1;
      if (nal.type === IDR) info.key = info.idr = true;
      if (nal.refIdc !== 0) info.reference = true;
    } else if (nal.type === SPS) info.sps = data.subarray(nal.start, nal.end);
    else if (nal.type === PPS) info.pps ??= data.subarray(nal.start, nal.end);
    else if (nal.type === SEI) readSei(data.subarray(nal.start + 1, nal.end), info);
  }
  if (info.recoveryFrames !== null && info.sps && info.pps && info.slices > 0) info.key = true;
  return info;
}

/** What a player uses of supplemental enhancement information. */
export type SeiInfo = Pick<AccessUnitInfo, "recoveryFrames" | "captureUs" | "record">;

/** Reads the messages of an SEI NAL unit behind its header byte, clause 7.3.2.3, that a player uses; one that is cut off ends it. */
export function readSei(nal: Uint8Array, into: SeiInfo): void {
  const sei = withoutEmulationPrevention(nal);
  let i = 0;
  const number = (): number => {
    let value = 0;
    while (sei[i] === 0xff) {
      value += 255;
      i += 1;
    }
    return value + (sei[i++] ?? 0);
  };
  // The trailing bits are one byte, where a message takes two at least.
  while (i + 1 < sei.length) {
    const type = number();
    const size = number();
    const payload = sei.subarray(i, i + size);
    if (payload.length < size) return;
    if (type === RECOVERY_POINT) into.recoveryFrames ??= recoveryFrames(payload);
    else if (type === USER_DATA_UNREGISTERED && into.captureUs === null) {
      into.captureUs = captureTime(payload);
      if (into.captureUs !== null) into.record = parseStampRecord(payload, CAPTURE_UTC_BYTES);
    }
    i += size;
  }
}

function recoveryFrames(payload: Uint8Array): number | null {
  try {
    return new BitReader(payload).unsigned();
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** UTC in µs, of user data that begins with the UUID; null of others. */
export function captureTime(payload: Uint8Array): number | null {
  if (payload.length < CAPTURE_UTC_BYTES || CAPTURE_UTC_UUID.some((byte, at) => payload[at] !== byte)) return null;
  const view = new DataView(payload.buffer, payload.byteOffset + CAPTURE_UTC_UUID.length, 8);
  return Number(view.getBigUint64(0) / 1000n);
}

/** The fields of a sequence parameter set that a player uses. */
export interface SequenceParameters {
  /** Visible size, after cropping, in pixels. */
  width: number;
  height: number;
  /** RFC 6381 codec string, such as `avc1.42c01f`. */
  codecString: string;
  profile: number;
  constraints: number;
  level: number;
  chromaFormat: number;
  bitDepthLuma: number;
  bitDepthChroma: number;
  fullRange: boolean;
  /** Code points of ISO/IEC 23091-2, or null where the stream is silent. */
  colour: { primaries: number; transfer: number; matrix: number } | null;
  /** Sample aspect ratio; 1:1 where the stream is silent. */
  sampleAspect: { width: number; height: number };
  /** Pictures a second, or null where the stream is silent. */
  frameRate: number | null;
  /** How many pictures may precede one in decoding order and follow it in output order; null: unknown. */
  maxReorderFrames: number | null;
  /** What a slice header depends on. */
  slice: SliceSyntax;
}

/** The fields of a sequence parameter set that say how a slice header is written. */
export interface SliceSyntax {
  spsId: number;
  separatePlanes: boolean;
  frameNumBits: number;
  orderType: number;
  orderBits: number;
  orderAlwaysZero: boolean;
  framesOnly: boolean;
  /** Macroblocks of a frame. */
  macroblocks: number;
}

const HIGH_PROFILES = new Set([100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135]);
const SAMPLE_ASPECTS: readonly (readonly [number, number])[] = [
  [1, 1], [1, 1], [12, 11], [10, 11], [16, 11], [40, 33], [24, 11], [20, 11], [32, 11],
  [80, 33], [18, 11], [15, 11], [64, 33], [160, 99], [4, 3], [3, 2], [2, 1],
];

/** Reads a sequence parameter set (NAL header byte included), clause 7.3.2.1.1. Null when it makes no sense. */
export function parseSps(nal: Uint8Array): SequenceParameters | null {
  if (nal.length < 4) return null;
  try {
    return readSps(withoutEmulationPrevention(nal));
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function readSps(rbsp: Uint8Array): SequenceParameters | null {
  const profile = rbsp[1]!;
  const constraints = rbsp[2]!;
  const level = rbsp[3]!;
  const bits = new BitReader(rbsp.subarray(4));
  const spsId = bits.unsigned();
  let chromaFormat = 1;
  let separatePlanes = false;
  let bitDepthLuma = 8;
  let bitDepthChroma = 8;
  if (HIGH_PROFILES.has(profile)) {
    chromaFormat = bits.unsigned();
    if (chromaFormat > 3) return null;
    if (chromaFormat === 3) separatePlanes = bits.bit() === 1;
    bitDepthLuma = 8 + bits.unsigned();
    bitDepthChroma = 8 + bits.unsigned();
    bits.bit();
    if (bits.bit() === 1) skipScalingLists(bits, chromaFormat === 3 ? 12 : 8);
  }
  const frameNumBits = bits.unsigned() + 4;
  const orderType = bits.unsigned();
  let orderBits = 0;
  let orderAlwaysZero = false;
  if (orderType === 0) orderBits = bits.unsigned() + 4;
  else if (orderType === 1) {
    orderAlwaysZero = bits.bit() === 1;
    bits.signed();
    bits.signed();
    const cycle = bits.unsigned();
    if (cycle > 255) return null;
    for (let i = 0; i < cycle; i++) bits.signed();
  }
  bits.unsigned(); // max_num_ref_frames
  bits.bit();
  const columns = bits.unsigned() + 1;
  const mapUnits = bits.unsigned() + 1;
  const framesOnly = bits.bit();
  if (framesOnly === 0) bits.bit();
  bits.bit();
  const crop = { left: 0, right: 0, top: 0, bottom: 0 };
  if (bits.bit() === 1) {
    crop.left = bits.unsigned();
    crop.right = bits.unsigned();
    crop.top = bits.unsigned();
    crop.bottom = bits.unsigned();
  }
  const subsampled = !separatePlanes && chromaFormat > 0;
  const cropX = subsampled && chromaFormat < 3 ? 2 : 1;
  const cropY = (subsampled && chromaFormat === 1 ? 2 : 1) * (2 - framesOnly);
  const width = columns * 16 - (crop.left + crop.right) * cropX;
  const height = mapUnits * 16 * (2 - framesOnly) - (crop.top + crop.bottom) * cropY;
  const macroblocks = columns * mapUnits * (2 - framesOnly);
  if (frameNumBits > 16 || orderBits > 16 || spsId > 31) return null;
  if (width <= 0 || height <= 0 || width > 16384 || height > 16384) return null;
  const hex = (n: number): string => n.toString(16).padStart(2, "0");
  const result: SequenceParameters = {
    width, height, profile, constraints, level, chromaFormat, bitDepthLuma, bitDepthChroma,
    codecString: `avc1.${hex(profile)}${hex(constraints)}${hex(level)}`,
    fullRange: false,
    colour: null,
    sampleAspect: { width: 1, height: 1 },
    frameRate: null,
    // Without B pictures in the profile, or with output order tied to decoding order, nothing is reordered.
    slice: { spsId, separatePlanes, frameNumBits, orderType, orderBits, orderAlwaysZero, framesOnly: framesOnly === 1, macroblocks },
    maxReorderFrames: profile === 66 || orderType === 2 ? 0 : null,
  };
  if (bits.bit() === 1) readVui(bits, result);
  return result;
}

/** Video usability information, clause E.1.1. A truncated one leaves the fields that were read. */
function readVui(bits: BitReader, into: SequenceParameters): void {
  try {
    if (bits.bit() === 1) {
      const index = bits.bits(8);
      const known = SAMPLE_ASPECTS[index];
      const [width, height] = index === 255 ? [bits.bits(16), bits.bits(16)] : (known ?? [1, 1]);
      if (width > 0 && height > 0) into.sampleAspect = { width, height };
    }
    if (bits.bit() === 1) bits.bit();
    if (bits.bit() === 1) {
      bits.bits(3);
      into.fullRange = bits.bit() === 1;
      if (bits.bit() === 1) into.colour = { primaries: bits.bits(8), transfer: bits.bits(8), matrix: bits.bits(8) };
    }
    if (bits.bit() === 1) {
      bits.unsigned();
      bits.unsigned();
    }
    if (bits.bit() === 1) {
      const unitsInTick = bits.bits(32);
      const timeScale = bits.bits(32);
      bits.bit();
      // A tick is a field: two make a picture.
      if (unitsInTick > 0 && timeScale > 0) into.frameRate = timeScale / (2 * unitsInTick);
    }
    const nalHrd = bits.bit() === 1;
    if (nalHrd) skipHrd(bits);
    const vclHrd = bits.bit() === 1;
    if (vclHrd) skipHrd(bits);
    if (nalHrd || vclHrd) bits.bit();
    bits.bit();
    if (bits.bit() === 1) {
      bits.bit();
      for (let i = 0; i < 4; i++) bits.unsigned();
      into.maxReorderFrames = bits.unsigned();
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
}

function skipHrd(bits: BitReader): void {
  const count = bits.unsigned() + 1;
  if (count > 32) throw new RangeError("HRD with more than 32 buffers");
  bits.bits(8);
  for (let i = 0; i < count; i++) {
    bits.unsigned();
    bits.unsigned();
    bits.bit();
  }
  bits.bits(20);
}

function skipScalingLists(bits: BitReader, count: number): void {
  for (let list = 0; list < count; list++) {
    if (bits.bit() === 0) continue;
    let last = 8;
    let next = 8;
    for (let i = 0; i < (list < 6 ? 16 : 64); i++) {
      if (next !== 0) next = (last + bits.signed() + 256) % 256;
      last = next === 0 ? last : next;
    }
  }
}

/** Takes out the 03 of each 00 00 03, clause 7.4.1. */
export function withoutEmulationPrevention(nal: Uint8Array): Uint8Array {
  const out = new Uint8Array(nal.length);
  let length = 0;
  let zeros = 0;
  for (const byte of nal) {
    if (zeros >= 2 && byte === 3) {
      zeros = 0;
      continue;
    }
    out[length++] = byte;
    zeros = byte === 0 ? zeros + 1 : 0;
  }
  return out.subarray(0, length);
}
