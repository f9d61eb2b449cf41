/**
 * Capture times out of CMAF chunks: `prft` says when the first sample of the `moof` behind it was captured
 * (ISO/IEC 14496-12 §8.16.5).
 *
 *     moov( trak( mdia( mdhd timescale, hdlr kind ) ) )      [prft NTP time] moof( traf( tfdt, trun ) ) mdat
 *
 * The first sample of the `mdat` may say it itself, to the microsecond and with its sender's stages (docs/capture-utc.md).
 */
import { type SeiInfo, readSei } from "./h264";
import type { StampRecord } from "./stamp_record";

/** A point of the media time line whose capture time is known. */
export interface CaptureTime {
  /** Presentation time in seconds, as the bytes have it. */
  mediaS: number;
  /** UTC in µs. */
  captureUs: number;
  /** What the picture's sender says of its stages; null where it does not. */
  record: StampRecord | null;
  /** It is of sound, whose `prft` says when it was captured or came. */
  isSound: boolean;
}

/** Seconds from 1900, where NTP begins, to 1970. */
const NTP_EPOCH_S = 2_208_988_800;
/** The message and `prft` say the same time, each rounded in its own way. */
const ROUNDED_US = 2;
/** In front of the first slice stand parameter sets and messages: a few. */
const NALS_MAX = 16;
const NAL_SEI = 6;

/** Reads one track's initialisation segment and chunks, in the order of their being appended. */
export class ChunkTimes {
  private timescale = 0;
  private isVideo = false;

  /** Capture times in these whole boxes. Nothing of what is cut or is no box. */
  read(bytes: Uint8Array): CaptureTime[] {
    const found: CaptureTime[] = [];
    let captureUs: number | null = null;
    let fresh: CaptureTime | null = null;
    for (const box of boxes(bytes)) {
      if (box.type === "moov") this.init(box.body);
      else if (box.type === "prft") captureUs = ntpUs(box.body);
      else if (box.type === "moof") {
        const ticks = captureUs !== null && this.timescale > 0 ? firstTicks(box.body) : null;
        fresh = captureUs !== null && ticks !== null ? { mediaS: ticks / this.timescale, captureUs, record: null, isSound: !this.isVideo } : null;
        if (fresh) found.push(fresh);
        captureUs = null;
      } else if (box.type === "mdat" && fresh && this.isVideo) {
        const { captureUs: exactUs, record } = firstSampleSei(box.body);
        if (exactUs !== null && Math.abs(exactUs - fresh.captureUs) <= ROUNDED_US) Object.assign(fresh, { captureUs: exactUs, record });
        fresh = null;
      }
    }
    return found;
  }

  private init(moov: Uint8Array): void {
    const mdia = inside(inside(moov, "trak"), "mdia");
    const mdhd = view(inside(mdia, "mdhd"));
    const hdlr = view(inside(mdia, "hdlr"));
    this.isVideo = hdlr.byteLength >= 12 && hdlr.getUint32(8) === 0x76696465;
    const at = mdhd.byteLength > 0 && mdhd.getUint8(0) === 1 ? 20 : 12;
    this.timescale = mdhd.byteLength >= at + 4 ? mdhd.getUint32(at) : 0;
  }
}

interface Box {
  type: string;
  body: Uint8Array;
}

function* boxes(bytes: Uint8Array): Generator<Box> {
  const data = view(bytes);
  for (let at = 0; at + 8 <= bytes.length; ) {
    let size = data.getUint32(at);
    let head = 8;
    if (size === 1 && at + 16 <= bytes.length) {
      size = Number(data.getBigUint64(at + 8));
      head = 16;
    }
    if (size < head || at + size > bytes.length) return;
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    yield { type, body: bytes.subarray(at + head, at + size) };
    at += size;
  }
}

const NOTHING = new Uint8Array(0);

/** The body of the first box of this kind; empty where there is none. */
function inside(bytes: Uint8Array, type: string): Uint8Array {
  for (const box of boxes(bytes)) if (box.type === type) return box.body;
  return NOTHING;
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function ntpUs(prft: Uint8Array): number | null {
  if (prft.length < 16) return null;
  const data = view(prft);
  return (data.getUint32(8) - NTP_EPOCH_S) * 1e6 + (data.getUint32(12) / 2 ** 32) * 1e6;
}

/** The messages in front of the first slice of an `mdat` that begins with a picture of H.264, its NAL units behind four bytes of length. */
function firstSampleSei(mdat: Uint8Array): SeiInfo {
  const data = view(mdat);
  const info: SeiInfo = { recoveryFrames: null, captureUs: null, record: null };
  for (let at = 0, nals = 0; at + 5 <= mdat.length && nals < NALS_MAX; nals++) {
    const end = at + 4 + data.getUint32(at);
    const type = mdat[at + 4]! & 0x1f;
    if (end > mdat.length || (type >= 1 && type <= 5)) break;
    if (type === NAL_SEI) readSei(mdat.subarray(at + 5, end), info);
    at = end;
  }
  return info;
}

/** Presentation time of a fragment's first sample in ticks. */
function firstTicks(moof: Uint8Array): number | null {
  const traf = inside(moof, "traf");
  const tfdt = view(inside(traf, "tfdt"));
  const trun = view(inside(traf, "trun"));
  if (tfdt.byteLength < 8 || trun.byteLength < 8) return null;
  const wide = tfdt.getUint8(0) === 1;
  if (wide && tfdt.byteLength < 12) return null;
  const decode = wide ? Number(tfdt.getBigUint64(4)) : tfdt.getUint32(4);
  const flags = trun.getUint32(0) & 0xffffff;
  if (!(flags & 0x800)) return decode;
  // Data offset and the first sample's flags stand before the samples; length, size and flags before the offset.
  const has = (flag: number): number => (flags & flag ? 4 : 0);
  const at = 8 + has(0x1) + has(0x4) + has(0x100) + has(0x200) + has(0x400);
  return at + 4 <= trun.byteLength ? decode + trun.getInt32(at) : decode;
}
