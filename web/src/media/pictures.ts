/**
 * The access units of an H.264 stream out of its PES packets (ISO/IEC 13818-1 clauses 2.4.3.7 and 2.14.1). A PES packet is no
 * picture: a picture may lie in several of them, and several pictures in one. Units are cut where the bitstream says; a time
 * stamp is that of the first unit whose first byte lies in its PES packet, and units without one are spaced evenly.
 *
 * A unit is given with its last byte where that shows: at the mark that our own muxer ends units with; at the end of a PES packet
 * with a length, once several of them were ends of units and none was not, and where one of those was longer; and, where the length is open, when a
 * chunk ends behind a packet with stuffing and as many slices are there as all recent pictures had. (An encoder that sends slices
 * as they are finished stuffs packets inside a picture, so stuffing alone proves nothing.) Otherwise it is given with the first
 * bytes of the next one, a picture later.
 */
import { nalUnits, isSlice, parseSps } from "./h264";
import { UnitFinder, findStartCode, firstBegin } from "./unit_finder";

const WRAP = 2 ** 33;
const MAX_UNIT_BYTES = 16 << 20;
const MAX_HEADER_BYTES = 9 + 255;
/** A PES packet of about the length that its field can say was cut for it. */
const FULL_PES_BYTES = 60_000;
/** So many pictures with the same number of slices make the number trustworthy. */
const STEADY_PICTURES = 8;
/** So many ends of PES packets that were ends of units make the next ones trusted. */
const WHOLE_ENDS = 3;
/** Units that wait at most for a stamp that tells how far they lie apart. */
const MAX_WAITING = 64;
/** Ticks of a picture that are believed: 1 to 300 a second. */
const PICTURE_TICKS = { least: 300, most: 90_000, unknown: 3600 };
/** PES packets that begin in one unit at most; of more, those that say nothing are not remembered, nor then the first ones. */
const MAX_MARKS = 64;

/** What our muxer ends a unit with, at the very end of a PES packet. */
const END_OF_UNIT = [0, 0, 1, 12, 0x80];

/** An access unit; times are 33-bit counts of a 90 kHz clock. */
export interface Unit {
  pts: number;
  dts: number;
  data: Uint8Array;
  randomAccess: boolean;
  discontinuity: boolean;
  receivedMs: number;
}

export interface Stamps {
  pts: number;
  dts: number;
}

/** A PES header: how long it is, what its packet's length field says (0: open), and its stamps, if there are some. */
export interface PesHeader {
  bytes: number;
  length: number;
  stamps: Stamps | null;
}

function timeStamp(data: Uint8Array, at: number): number {
  return (
    ((data[at]! >> 1) & 7) * 2 ** 30 + (data[at + 1]! << 22) + ((data[at + 2]! >> 1) << 15) + (data[at + 3]! << 7) +
    (data[at + 4]! >> 1)
  );
}

/** Reads the header at the beginning of `data`; null: it is none, "short": it is not whole yet. */
export function pesHeader(data: Uint8Array): PesHeader | "short" | null {
  const start = [0, 0, 1];
  if (start.some((byte, at) => at < data.length && data[at] !== byte)) return null;
  if (data.length < 9 || data.length < 9 + data[8]!) return "short";
  const bytes = 9 + data[8]!;
  const length = (data[4]! << 8) | data[5]!;
  const flags = data[7]! >> 6;
  if ((flags & 2) === 0 || data[8]! < (flags === 3 ? 10 : 5)) return { bytes, length, stamps: null };
  const pts = timeStamp(data, 9);
  return { bytes, length, stamps: { pts, dts: flags === 3 ? timeStamp(data, 14) : pts } };
}

/** Whether `data` ends with the mark behind a unit. */
function endsUnit(data: Uint8Array, length: number): boolean {
  const start = length - END_OF_UNIT.length;
  return start >= 0 && END_OF_UNIT.every((byte, index) => data[start + index] === byte);
}

function distance(a: number, b: number): number {
  const d = (((a - b) % WRAP) + WRAP) % WRAP;
  return d >= WRAP / 2 ? d - WRAP : d;
}

function later(stamp: number, ticks: number): number {
  return (((stamp + Math.round(ticks)) % WRAP) + WRAP) % WRAP;
}

/** A PES packet that begins within what is held. */
interface Mark {
  /** Where its first byte lies; 0 also for one before what is held. */
  at: number;
  /** Until a unit has taken them. */
  stamps: Stamps | null;
  /** It came with stamps, whether a unit has taken them or not. */
  stamped: boolean;
  randomAccess: boolean;
}

type Untimed = Omit<Unit, "pts" | "dts">;

/** Gives units their times. */
class Times {
  private last: Stamps | null = null;
  private since = 0;
  private measured = 0;
  private waiting: Untimed[] = [];
  private waitingBytes = 0;
  /** Ticks of a picture, as the last parameter set has it; 0: unknown. */
  stated = 0;

  constructor(private readonly emit: (unit: Unit) => void) {}

  forget(): void {
    this.last = null;
    this.waiting = [];
    this.waitingBytes = 0;
  }

  /** Gives a unit with its time, or keeps it until that is known. Returns false where it never will be. */
  give(unit: Untimed, stamps: Stamps | null): boolean {
    if (!stamps) {
      if (!this.last) return false;
      this.since += 1;
      const ticks = this.measured || this.stated;
      if (ticks > 0 && this.waiting.length === 0) this.place(unit, this.last, ticks * this.since);
      else {
        this.waiting.push(unit);
        this.waitingBytes += unit.data.length;
        if (this.waiting.length >= MAX_WAITING || this.waitingBytes > MAX_UNIT_BYTES) {
          this.measured = PICTURE_TICKS.unknown;
          this.release();
        }
      }
      return true;
    }
    if (this.last) {
      const between = distance(stamps.dts, this.last.dts) / (this.since + 1);
      if (between >= PICTURE_TICKS.least && between <= PICTURE_TICKS.most) this.measured = between;
      this.release();
    }
    this.last = stamps;
    this.since = 0;
    this.place(unit, stamps, 0);
    return true;
  }

  /** Gives what waits. */
  release(): void {
    const { last, waiting } = this;
    if (!last) return;
    this.waiting = [];
    this.waitingBytes = 0;
    const ticks = this.measured || this.stated || PICTURE_TICKS.unknown;
    const first = this.since - waiting.length + 1;
    waiting.forEach((unit, index) => this.place(unit, last, ticks * (first + index)));
  }

  private place(unit: Untimed, from: Stamps, ticks: number): void {
    this.emit({ ...unit, pts: later(from.pts, ticks), dts: later(from.dts, ticks) });
  }
}

export class Pictures {
  private state: "none" | "header" | "payload" = "none";
  private header = new Uint8Array(0);
  private headerRandomAccess = false;
  /** Bytes of the PES packet that are still to come; -1: an open length. */
  private left = 0;
  private cameBytes = 0;
  private held = new Uint8Array(1 << 16);
  private length = 0;
  private marks: Mark[] = [];
  private readonly finder = new UnitFinder();
  private aligned = false;
  /** What was given last was taken as whole, though nothing said so. */
  private guessed = false;
  private crossed = false;
  private wholeEnds = 0;
  private longest = 0;
  /** The last end of a PES packet of which nothing is known yet: how long the packet was, and where it lies in what is held. */
  private lastEnd: { bytes: number; at: number } | null = null;
  private readonly times: Times;
  private pendingDiscontinuity = false;
  private endsWithStuffing = false;
  private mayGuess = true;
  private recentSlices: number[] = [];
  private newestMs = NaN;

  /** `broken`: a picture was given before it was whole; until the next key frame nothing can be shown. */
  constructor(emit: (unit: Unit) => void, private readonly broken: () => void) {
    this.times = new Times(emit);
  }

  /** Packets are missing: what is begun is no whole unit, and the next unit begins where it shows. */
  lose(): void {
    this.forget();
    this.times.forget();
    this.pendingDiscontinuity = true;
  }

  /** What comes is announced not to continue what was. */
  jump(): void {
    this.pendingDiscontinuity = true;
  }

  /** A PES packet begins. */
  begin(randomAccess: boolean): void {
    if (this.state === "header" || (this.state === "payload" && this.left > 0)) this.lose();
    this.state = "header";
    this.header = new Uint8Array(0);
    this.headerRandomAccess = randomAccess;
  }

  /** Takes a transport packet's payload, which came at `nowMs`; `stuffed`: the packet was filled up behind it. */
  push(payload: Uint8Array, stuffed: boolean, nowMs: number): void {
    if (this.state === "payload") return this.payload(payload, stuffed, nowMs);
    if (this.state === "none") return;
    const before = this.header.length;
    const room = Math.max(0, MAX_HEADER_BYTES - before);
    const head = new Uint8Array(before + Math.min(room, payload.length));
    head.set(this.header);
    head.set(payload.subarray(0, room), before);
    this.header = head;
    const header = pesHeader(head);
    if (header === "short" && room > payload.length) return;
    if (header === null || header === "short") return this.lose();
    this.left = header.length > 0 ? 6 + header.length - header.bytes : -1;
    if (header.length > 0 && this.left < 0) return this.lose();
    const { stamps } = header;
    const mark = { at: this.length, stamps, stamped: stamps !== null, randomAccess: this.headerRandomAccess };
    const full = this.marks.length >= MAX_MARKS;
    if (full && (mark.stamps || mark.randomAccess)) {
      const plain = this.marks.findIndex(({ stamps, randomAccess }) => !stamps && !randomAccess);
      this.marks.splice(Math.max(0, plain), 1);
    }
    if (!full || mark.stamps || mark.randomAccess) this.marks.push(mark);
    this.state = "payload";
    this.cameBytes = 0;
    this.payload(payload.subarray(Math.max(0, header.bytes - before)), stuffed, nowMs);
  }

  /** A chunk has ended: a picture in a PES packet of open length that ends with stuffing and has all its slices goes out now. */
  chunkEnd(): void {
    if (this.state !== "payload" || this.left !== -1 || !this.endsWithStuffing || !this.mayGuess || !this.aligned) return;
    const slices = this.recentSlices[0];
    if (slices === undefined || this.recentSlices.length < STEADY_PICTURES) return;
    if (this.recentSlices.some((count) => count !== slices)) return;
    this.cut(true, this.newestMs);
    if (this.finder.slices !== slices) return;
    this.takeAll();
    this.guessed = true;
  }

  /** The stream ends, or something else begins: what is held is whole as far as one can know. */
  finish(): void {
    if (this.state !== "payload" || this.left <= 0) this.takeAll();
    this.forget();
    this.times.release();
  }

  private forget(): void {
    this.state = "none";
    this.length = 0;
    this.marks = [];
    this.aligned = false;
    this.guessed = false;
    this.lastEnd = null;
    this.finder.restart();
  }

  private payload(payload: Uint8Array, stuffed: boolean, nowMs: number): void {
    const bytes = this.left >= 0 ? payload.subarray(0, this.left) : payload;
    if (this.left >= 0) this.left -= bytes.length;
    this.cameBytes += bytes.length;
    if (this.length + bytes.length > MAX_UNIT_BYTES) return this.lose();
    this.append(bytes);
    this.endsWithStuffing = stuffed;
    const before = this.newestMs;
    this.newestMs = nowMs;
    this.cut(false, before);
    if (this.left <= 0 && endsUnit(this.held, this.length)) this.takeAll();
    else if (this.left === 0) {
      const trusted = !this.crossed && this.wholeEnds >= WHOLE_ENDS && this.cameBytes < this.longest && this.cameBytes < FULL_PES_BYTES;
      if (trusted) {
        this.takeAll();
        this.guessed = true;
      } else {
        if (this.lastEnd) this.crossed = true; // within a unit that has gone on beyond an end already
        this.lastEnd = { bytes: this.cameBytes, at: this.length };
      }
    }
    if (this.left === 0) this.state = "none";
  }

  private append(bytes: Uint8Array): void {
    if (this.length + bytes.length > this.held.length) {
      const larger = new Uint8Array(Math.max(this.held.length * 2, this.length + bytes.length));
      larger.set(this.held.subarray(0, this.length));
      this.held = larger;
    }
    this.held.set(bytes, this.length);
    this.length += bytes.length;
  }

  /** Gives the units behind which others have begun; their last bytes came at `receivedMs`. */
  private cut(whole: boolean, receivedMs: number): void {
    if (!this.aligned && !this.align()) return;
    for (;;) {
      const at = this.finder.next(this.held, this.length, whole);
      if (at < 0) return;
      if (at === 0) continue;
      this.judgeEnd(at);
      this.give(at, receivedMs);
    }
  }

  private align(): boolean {
    const begin = firstBegin(this.held, this.length);
    if (begin < 0) {
      // What may be the beginning of a start code, and what stands behind one, stays.
      this.skip(Math.max(0, this.length - 8));
      return false;
    }
    if (this.guessed && isRest(this.held.subarray(0, begin))) this.wasWrong();
    this.skip(begin);
    this.aligned = true;
    this.guessed = false;
    this.finder.restart();
    return true;
  }

  /** What was taken for a whole picture was not. */
  private wasWrong(): void {
    this.guessed = false;
    this.crossed = true;
    this.mayGuess = false;
    this.recentSlices = [];
    this.broken();
  }

  /** A unit begins at `at`: what that says of the last end of a PES packet with a length. */
  private judgeEnd(at: number): void {
    const end = this.lastEnd;
    if (!end || end.at > at + 1) return;
    this.lastEnd = null;
    // A zero of its start code may be taken for one of those that may stand behind a unit.
    if (at - end.at <= 1) {
      this.wholeEnds += 1;
      this.longest = Math.max(this.longest, end.bytes);
    } else this.crossed = true;
  }

  private skip(bytes: number): void {
    this.held.copyWithin(0, bytes, this.length);
    this.length -= bytes;
    if (this.lastEnd) this.lastEnd.at = Math.max(0, this.lastEnd.at - bytes);
    for (const mark of this.marks) mark.at = Math.max(0, mark.at - bytes);
  }

  private takeAll(): void {
    this.cut(true, this.newestMs);
    if (!this.aligned || this.finder.slices === 0) return;
    this.give(this.length - (endsUnit(this.held, this.length) ? END_OF_UNIT.length : 0), this.newestMs);
    this.skip(this.length);
    this.finder.restart();
    this.aligned = false;
  }

  /** Gives the first `bytes` of what is held as a unit. */
  private give(bytes: number, receivedMs: number): void {
    const data = this.held.slice(0, bytes);
    const nals = nalUnits(data);
    const slices = nals.filter(isSlice);
    let stamps: Stamps | null = null;
    let randomAccess = false;
    let stamped = false;
    const take = (mark: Mark): void => {
      stamped = mark.stamped;
      stamps = mark.stamps ?? stamps;
      randomAccess ||= mark.randomAccess;
      mark.stamps = null;
      mark.randomAccess = false;
    };
    this.marks.filter((mark) => mark.at === 0).forEach(take);
    // Parameter sets in a PES packet of their own, without a stamp: the picture's is theirs.
    const firstSlice = slices[0] ? slices[0].start - 3 : -1;
    const own = this.marks.find((mark) => mark.at > 0 && mark.at <= firstSlice);
    if (stamps === null && !stamped && own) take(own);
    this.skip(bytes);
    const passed = this.marks.filter((mark) => mark.at === 0);
    const untaken = passed.map((mark) => mark.stamps).filter((mark) => mark !== null).pop() ?? null;
    const newest = passed.pop();
    this.marks = this.marks.filter((mark) => mark.at > 0);
    if (newest) this.marks.unshift({ ...newest, stamps: newest.stamps ?? untaken });
    if (slices.length === 0 && findStartCode(data, 0) < 0) return;
    this.learn(data, nals);
    if (this.mayGuess) {
      this.recentSlices.push(slices.length);
      if (this.recentSlices.length > STEADY_PICTURES) this.recentSlices.shift();
    }
    const discontinuity = this.pendingDiscontinuity;
    if (this.times.give({ data, randomAccess, discontinuity, receivedMs }, stamps)) this.pendingDiscontinuity = false;
  }

  private learn(data: Uint8Array, nals: ReturnType<typeof nalUnits>): void {
    const set = nals.find((nal) => nal.type === 7);
    if (!set) return;
    const rate = parseSps(data.subarray(set.start, set.end))?.frameRate ?? 0;
    const ticks = rate > 0 ? 90_000 / rate : 0;
    this.times.stated = ticks >= PICTURE_TICKS.least && ticks <= PICTURE_TICKS.most ? ticks : 0;
  }
}

/** Whether what stands before the first unit belongs to a picture that was given already. */
function isRest(bytes: Uint8Array): boolean {
  if (bytes.every((byte) => byte === 0)) return false;
  const at = findStartCode(bytes, 0);
  const begins = at >= 0 && bytes.subarray(0, at).every((byte) => byte === 0);
  return !begins || nalUnits(bytes).some(isSlice);
}
