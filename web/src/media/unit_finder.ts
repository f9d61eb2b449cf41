/**
 * Where access units of H.264 begin in an Annex B byte stream, found as its bytes come (ISO/IEC 14496-10 clauses 7.4.1.2.3 and
 * 7.4.1.2.4): after a coded slice, a unit begins with the first delimiter, parameter set or message, or with the first slice of
 * another picture. The two fields of a frame are one unit here, as they are one picture for viewers. It finds what the server's
 * own finder does.
 */
import { BitReader } from "./bits";
import { nalUnits, parseSps, withoutEmulationPrevention } from "./h264";

const SPS = 7;
const PPS = 8;
const IDR = 5;
/** More than the part of a slice's header that is read needs, emulation prevention included. */
const SLICE_HEAD_BYTES = 20;

/** What a slice says of its picture. */
interface Slice {
  /** It begins with the picture's first macroblock. */
  first: boolean;
  idr: boolean;
  reference: boolean;
  /** NaN where its parameter sets are not known. */
  frameNum: number;
  /** `bottom_field_flag` of a coded field; -1 for a frame. */
  field: number;
  /** The second field of its frame has begun. */
  paired: boolean;
}

interface Sequence {
  frameNumBits: number;
  framesOnly: boolean;
  separatePlanes: boolean;
}

/** Where the next 00 00 01 at or after `from` begins in the first `length` bytes; -1: nowhere. */
export function findStartCode(data: Uint8Array, from: number, length = data.length): number {
  for (let at = from + 2; at < length; ) {
    const byte = data[at]!;
    if (byte > 1) at += 3;
    else if (byte === 1 && data[at - 1] === 0 && data[at - 2] === 0) return at - 2;
    else at += 1;
  }
  return -1;
}

/** A whole slice, or its first partition. */
function isSliceHead(type: number): boolean {
  return type === 1 || type === 2 || type === IDR;
}

/** A message, a parameter set, a delimiter, or one of 14 to 18: what stands before the first slice of a unit. */
function beginsUnit(type: number): boolean {
  return (type >= 6 && type <= 9) || (type >= 14 && type <= 18);
}

function withLeadingZero(data: Uint8Array, at: number): number {
  return at > 0 && data[at - 1] === 0 ? at - 1 : at;
}

/** Where the first unit begins whose beginning is in the first `length` bytes; -1: nowhere, or not known yet. */
export function firstBegin(data: Uint8Array, length = data.length): number {
  for (let at = findStartCode(data, 0, length); at >= 0; at = findStartCode(data, at + 3, length)) {
    if (at + 4 >= length) return -1;
    const type = data[at + 3]! & 0x1f;
    if (isSliceHead(type) ? (data[at + 4]! & 0x80) !== 0 : beginsUnit(type)) return withLeadingZero(data, at);
  }
  return -1;
}

export class UnitFinder {
  private looked = 0;
  private slice: Slice | null = null;
  /** Where what may begin the next unit begins: it does unless a second field follows. */
  private begin = -1;
  private hasSets = false;
  private readonly sequences = new Map<number, Sequence>();
  private readonly pictures = new Map<number, number>();
  /** The current unit's slices. */
  slices = 0;

  /**
   * Where the next unit begins in the first `length` bytes of `held`, whose first byte is that of the current one; -1: not yet.
   * After a cut it is called next with what is left behind it. `whole`: nothing follows for now.
   */
  next(held: Uint8Array, length: number, whole: boolean): number {
    for (;;) {
      const at = findStartCode(held, this.looked, length);
      if (at < 0) break;
      const header = at + 3;
      const type = header < length ? held[header]! & 0x1f : -1;
      const slice = isSliceHead(type);
      const known = type >= 0 && (!slice || this.isEnough(held, header, length, whole));
      if (!known) {
        this.looked = at; // zeros before it belong to it, so it is found again
        return -1;
      }
      const here = withLeadingZero(held, at);
      if (slice) {
        const cut = this.takeSlice(held, at, length, here);
        if (cut >= 0) return cut;
      } else if (beginsUnit(type)) {
        this.hasSets ||= type === SPS || type === PPS;
        const begin = this.begin >= 0 ? this.begin : here;
        // A prefix (14) stands before each slice of a stream in layers; behind a first field the second one may follow.
        if (this.slice && (type === 14 || isLone(this.slice))) this.begin = begin;
        else if (this.slice) return this.cut(begin);
      }
      this.looked = header;
    }
    this.looked = Math.max(this.looked, length - 2, 0); // the last two bytes may begin a start code
    return -1;
  }

  /** The current unit was taken, whole or not; parameter sets stay known. */
  restart(): void {
    this.looked = 0;
    this.slice = null;
    this.begin = -1;
    this.hasSets = false;
    this.slices = 0;
  }

  private cut(at: number): number {
    this.restart();
    return at;
  }

  private isEnough(held: Uint8Array, header: number, length: number, whole: boolean): boolean {
    if (header + 1 >= length) return false;
    return whole || length - header >= SLICE_HEAD_BYTES || findStartCode(held, header + 1, length) >= 0;
  }

  private takeSlice(held: Uint8Array, at: number, length: number, here: number): number {
    if (this.hasSets) this.learn(held.subarray(0, at + 3));
    this.hasSets = false;
    const slice = this.read(held.subarray(at + 3, Math.min(length, at + 3 + SLICE_HEAD_BYTES)));
    const last = this.slice;
    if (last) {
      const second = isSecondField(slice, last);
      if (isNewPicture(slice, last) && !second) return this.cut(this.begin >= 0 ? this.begin : here);
      slice.paired = last.paired || second;
    }
    this.slice = slice;
    this.slices += 1;
    this.begin = -1;
    return -1;
  }

  private learn(head: Uint8Array): void {
    for (const nal of nalUnits(head)) {
      const bytes = head.subarray(nal.start, nal.end);
      if (nal.type === SPS) {
        const set = parseSps(bytes)?.slice;
        if (set) this.sequences.set(set.spsId, set);
      } else if (nal.type === PPS) {
        const ids = tryRead(bytes.subarray(1, SLICE_HEAD_BYTES), (bits) => [bits.unsigned(), bits.unsigned()] as const);
        if (ids && ids[0] < 256) this.pictures.set(ids[0], ids[1]);
      }
    }
  }

  /** Reads a slice's header as far as its picture's identity goes. */
  private read(nal: Uint8Array): Slice {
    const slice: Slice = {
      first: ((nal[1] ?? 0) & 0x80) !== 0, // first_mb_in_slice is 0: its code is the one bit 1
      idr: (nal[0]! & 0x1f) === IDR,
      reference: (nal[0]! & 0x60) !== 0,
      frameNum: NaN,
      field: -1,
      paired: false,
    };
    tryRead(nal.subarray(1), (bits) => {
      bits.unsigned();
      bits.unsigned();
      const sequence = this.sequences.get(this.pictures.get(bits.unsigned()) ?? -1);
      if (!sequence) return;
      // Each plane has slices of its own; the picture begins with its first one.
      if (sequence.separatePlanes) slice.first = bits.bits(2) === 0 && slice.first;
      const frameNum = bits.bits(sequence.frameNumBits);
      if (!sequence.framesOnly && bits.bit() === 1) slice.field = bits.bit();
      slice.frameNum = frameNum;
    });
    return slice;
  }
}

function tryRead<T>(bytes: Uint8Array, read: (bits: BitReader) => T): T | null {
  try {
    return read(new BitReader(withoutEmulationPrevention(bytes)));
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function isLone(slice: Slice): boolean {
  return slice.field >= 0 && !slice.paired;
}

function isNewPicture(slice: Slice, last: Slice): boolean {
  const numbered = !Number.isNaN(slice.frameNum) && !Number.isNaN(last.frameNum);
  return (
    slice.first || slice.idr !== last.idr || slice.reference !== last.reference || slice.field !== last.field ||
    (numbered && slice.frameNum !== last.frameNum)
  );
}

function isSecondField(slice: Slice, last: Slice): boolean {
  const opposite = slice.field >= 0 && last.field >= 0 && slice.field !== last.field;
  return opposite && isLone(last) && !slice.idr && slice.frameNum === last.frameNum;
}
