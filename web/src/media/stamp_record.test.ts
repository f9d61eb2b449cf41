import { describe, expect, it } from "vitest";
import { hex, random } from "../testing/ts_builder";
import { inspect } from "./h264";
import { STAGE_LONGEST_US, type StampRecord, parseStampRecord } from "./stamp_record";

/** The example of docs/capture-utc.md. */
const EXAMPLE = "010b8e05ac02a09c01a01fa09c01";
const EXPECTED: StampRecord = {
  clockErrorUs: 1024,
  arrived: null,
  queued: 5,
  encoderIn: 300,
  lookAhead: null,
  previous: { agoUs: 20_000, firstSlice: 4000, firstSent: null, encoded: null, muxed: null, sent: 20_000 },
};

function write(value: number): number[] {
  const bytes: number[] = [];
  for (; value >= 0x80; value = Math.floor(value / 128)) bytes.push((value % 128) | 0x80);
  return [...bytes, value];
}

describe("a record of stages", () => {
  it("is read as docs/capture-utc.md has it", () => {
    expect(parseStampRecord(hex(EXAMPLE))).toEqual(EXPECTED);
    expect(parseStampRecord(hex(`ffff${EXAMPLE}`), 2)).toEqual(EXPECTED);
  });

  it("stands behind the capture time in the picture's own message", () => {
    // An 03 keeps the record's first byte from making a start code of the zeros in front of it.
    const message = `0605269d1f3c526b0e4f7a8c21676c6c63617017979cfe362a000003${EXAMPLE}80`;
    const unit = inspect(hex(`00000001${message}0000000141ff55`));
    expect(unit).toMatchObject({ captureUs: 1_700_000_000_000_000, record: EXPECTED });
    expect(inspect(hex("000000010605189d1f3c526b0e4f7a8c21676c6c63617017979cfe362a0000800000000141ff55")).record).toBeNull();
  });

  it("says all eight stages, and leaves what stands behind to later versions", () => {
    const values = [400, 500, 600, 20_000, 2000, 2200, 8000, 8100, 8300];
    const bytes = new Uint8Array([1, 255, 255, ...values.flatMap(write), 7, 7]);
    expect(parseStampRecord(bytes)).toEqual({
      clockErrorUs: Infinity, arrived: 400, queued: 500, encoderIn: 600, lookAhead: null,
      previous: { agoUs: 20_000, firstSlice: 2000, firstSent: 2200, encoded: 8000, muxed: 8100, sent: 8300 },
    });
  });

  it("says when the picture left the look-ahead, and nothing where that is cut off or of a later version", () => {
    const read = (...behind: number[]): StampRecord | null => parseStampRecord(new Uint8Array([...hex(EXAMPLE), ...behind]));
    expect(read(1, ...write(1_200_000))).toEqual({ ...EXPECTED, lookAhead: 1_200_000 });
    for (const behind of [[1], [1, 0x80], [3, 5], [1, 0xff, 0xff, 0xff, 0x7f]]) expect(read(...behind)).toEqual(EXPECTED);
  });

  it("knows nothing beyond a minute, and no picture before at no distance or so far away", () => {
    const far = STAGE_LONGEST_US + 1;
    const read = (...values: number[]): StampRecord | null => parseStampRecord(new Uint8Array([1, 0, 0x81, ...values.flatMap(write)]));
    expect(read(far, 10, far)).toMatchObject({ clockErrorUs: null, arrived: null, previous: { agoUs: 10, sent: null } });
    expect(read(STAGE_LONGEST_US, 10, 5)).toMatchObject({ arrived: STAGE_LONGEST_US, previous: { sent: 5 } });
    expect(read(1, 0, 5)?.previous).toBeNull();
    expect(read(1, far, 5)).toMatchObject({ arrived: 1, previous: null });
  });

  it("is none where it is cut off, of another version or has a number that is too long", () => {
    const whole = hex(EXAMPLE);
    for (let length = 0; length < whole.length; length++) expect(parseStampRecord(whole.slice(0, length)), `${length} bytes`).toBeNull();
    expect(parseStampRecord(hex(`02${EXAMPLE.slice(2)}`))).toBeNull();
    expect(parseStampRecord(hex("010001ffffffff01"))).toBeNull();
    expect(parseStampRecord(hex("010001ffffff7f"))?.arrived).toBeNull();
  });

  it("reads how right the sender's clock is", () => {
    const clock = (code: number): number | null => parseStampRecord(new Uint8Array([1, code, 0]))!.clockErrorUs;
    expect([0, 1, 32, 33, 254, 255].map(clock)).toEqual([null, 1, 2 ** 31, null, null, Infinity]);
  });

  it("says nothing impossible, whatever the bytes are", () => {
    for (let seed = 1; seed <= 3000; seed++) {
      const next = random(seed);
      const bytes = Uint8Array.from({ length: Math.floor(next() * 45) }, () => Math.floor(next() * 256));
      if (next() < 0.9) bytes[0] = 1;
      const record = parseStampRecord(bytes);
      if (!record) continue;
      const { clockErrorUs: _, previous, ...own } = record;
      for (const value of [...Object.values(own), ...Object.values(previous ?? {})]) {
        const isPossible = value === null || (Number.isInteger(value) && value >= 0 && value <= STAGE_LONGEST_US);
        expect(isPossible, `seed ${seed}: ${JSON.stringify(record)}`).toBe(true);
      }
      expect(previous?.agoUs, `seed ${seed}`).not.toBe(0);
    }
  });
});
