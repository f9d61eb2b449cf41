/**
 * What a sender says of its stages beside a picture's capture time (docs/capture-utc.md): the stages of this picture that
 * are over before its first slice leaves, and the rest of those of the picture before.
 *
 *     version clock known │ arrived queued encoder-in │ ago │ first-slice first-sent encoded muxed sent │ [1 look-ahead]
 */

const VERSION = 1;
/** Bytes of a number at most: seven bits in each. */
const VALUE_BYTES_MAX = 4;
/** No stage of a live picture lasts longer than this, in µs: beyond it is a clock that was set, or no stage at all. */
export const STAGE_LONGEST_US = 60_000_000;
const OWN_STAGES = 3;
/** What stands in front of the look-ahead. */
const LOOK_AHEAD_KNOWN = 1;
const CLOCK_COARSEST = 32;
const CLOCK_UNSYNCHRONISED = 255;

/** How far the sender's wall clock may be from UTC by its own estimate, in µs: infinite where nothing keeps it, null: not known. */
export type ClockError = number | null;

/** Stages of the picture before, in µs after *its* capture; null: not known. */
export interface PreviousStages {
  /** So many whole µs before this picture that one was captured. */
  agoUs: number;
  firstSlice: number | null;
  firstSent: number | null;
  encoded: number | null;
  muxed: number | null;
  sent: number | null;
}

/** A sender's record. Stages are µs after the picture's capture; null: not known. */
export interface StampRecord {
  clockErrorUs: ClockError;
  arrived: number | null;
  queued: number | null;
  encoderIn: number | null;
  /** When it was about to leave the encoder's look-ahead, where that has one. */
  lookAhead: number | null;
  previous: PreviousStages | null;
}

/**
 * Reads the record that stands in `bytes` from `start` on; what stands behind it is left to later versions. Null where it is cut off,
 * of another version, or has a number of more than four bytes. A stage of more than 60 s is not known.
 */
export function parseStampRecord(bytes: Uint8Array, start = 0): StampRecord | null {
  if (bytes.length < start + 3 || bytes[start] !== VERSION) return null;
  const known = bytes[start + 2]!;
  const values: (number | null)[] = [];
  let agoUs = 0;
  let at = start + 3;
  for (let stage = 0; stage < 8; stage++) {
    if (stage === OWN_STAGES && known >> OWN_STAGES !== 0) {
      const end = valueEnd(bytes, at);
      if (end === 0) return null;
      agoUs = valueOf(bytes, at, end);
      at = end;
    }
    if ((known & (1 << stage)) === 0) {
      values.push(null);
      continue;
    }
    const end = valueEnd(bytes, at);
    if (end === 0) return null;
    const value = valueOf(bytes, at, end);
    values.push(value <= STAGE_LONGEST_US ? value : null);
    at = end;
  }
  const [arrived, queued, encoderIn, firstSlice, firstSent, encoded, muxed, sent] = values as [
    number | null, number | null, number | null, number | null, number | null, number | null, number | null, number | null];
  const previous = agoUs > 0 && agoUs <= STAGE_LONGEST_US ? { agoUs, firstSlice, firstSent, encoded, muxed, sent } : null;
  return { clockErrorUs: clockError(bytes[start + 1]!), arrived, queued, encoderIn, lookAhead: lookAhead(bytes, at), previous };
}

/** What stands behind the record of an encoder with a look-ahead; cut off, or of a later version, it is not known. */
function lookAhead(bytes: Uint8Array, at: number): number | null {
  const end = bytes[at] === LOOK_AHEAD_KNOWN ? valueEnd(bytes, at + 1) : 0;
  const value = end === 0 ? null : valueOf(bytes, at + 1, end);
  return value !== null && value <= STAGE_LONGEST_US ? value : null;
}

/** Where the number at `at` ends; 0 where it is cut off or too long. */
function valueEnd(bytes: Uint8Array, at: number): number {
  for (let end = at; end < at + VALUE_BYTES_MAX && end < bytes.length; end++) {
    if (bytes[end]! < 0x80) return end + 1;
  }
  return 0;
}

function valueOf(bytes: Uint8Array, at: number, end: number): number {
  let value = 0;
  for (let i = end - 1; i >= at; i--) value = value * 128 + (bytes[i]! & 0x7f);
  return value;
}

function clockError(code: number): ClockError {
  if (code === CLOCK_UNSYNCHRONISED) return Infinity;
  return code >= 1 && code <= CLOCK_COARSEST ? 2 ** (code - 1) : null;
}
