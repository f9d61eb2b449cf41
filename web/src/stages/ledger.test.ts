import { describe, expect, it } from "vitest";
import type { Offset } from "../clock";
import type { StampRecord } from "../media/stamp_record";
import { random } from "../testing/ts_builder";
import { StageLedger, type StageSummary } from "./ledger";
import { FIGURES, PARTS, type Part, type Stamps, TOTAL, split } from "./parts";

/** This page's clock begins here on the server's, and is known to ±0.5 ms. */
const UTC_US = 1_700_000_000_000_000;
const OFFSET: Offset = { offsetUs: UTC_US, roundTripMs: 1 };
const INTERVAL_MS = 20;

/** Pictures of 50 a second: captured, 13 ms later sent, 15 ms later here, decoded after 3 and shown after another 6. */
interface Line {
  count?: number;
  /** How far the sender's clock is ahead, in ms. */
  aheadMs?: number;
  records?: boolean;
  decoded?: boolean;
  capture?: boolean;
  arrives?(number: number): boolean;
}

const RECORD: StampRecord = {
  clockErrorUs: 64, arrived: 500, queued: 600, encoderIn: 1000, lookAhead: null,
  previous: { agoUs: INTERVAL_MS * 1000, firstSlice: 4000, firstSent: 4100, encoded: 12_000, muxed: 12_300, sent: 13_000 },
};

const captureUs = (number: number, aheadMs = 0): number => UTC_US + (number * INTERVAL_MS + aheadMs) * 1000;

function followed(line: Line, ledger = new StageLedger()): StageLedger {
  const { count = 600, aheadMs = 0, records = true, decoded = true, capture = true, arrives = () => true } = line;
  for (let number = 0; number < count; number++) {
    if (!arrives(number)) continue;
    const receivedMs = number * INTERVAL_MS + 15;
    const place = ledger.arrived(capture ? captureUs(number, aheadMs) : null, records ? RECORD : null, receivedMs, receivedMs);
    ledger.shown(place, decoded ? receivedMs + 3 : NaN, receivedMs + 9);
  }
  return ledger;
}

const END_MS = 600 * INTERVAL_MS;

function medians({ parts, total }: StageSummary): Partial<Record<Part | "total", number>> {
  const all = [...PARTS.map((part) => [part, parts[part]] as const), ["total", total] as const];
  return Object.fromEntries(all.flatMap(([name, figures]) => (figures ? [[name, figures.p50]] : [])));
}

describe("the stages of shown pictures", () => {
  it("are told each, and add up", () => {
    const summary = followed({}).summary(END_MS, OFFSET);
    expect(medians(summary)).toEqual({
      capture: 0.5, queue: 0.5, encode: 11, mux: 0.3, send: 0.7, network: 2, decode: 3, display: 6, total: 24,
    });
    // Those of the last ten seconds, but the newest: the next picture tells the rest of it.
    expect(summary).toMatchObject({ shown: 501, pictures: 500, fromTheFuture: 0, clockMs: 0.5, senderClockMs: 0.064 });
  });

  it("leave out what comes in the first second, and what was before joining anew", () => {
    const ledger = followed({ count: 100 });
    expect(ledger.summary(2000, OFFSET)).toMatchObject({ shown: 50 });
    ledger.restart();
    expect(ledger.summary(2000, OFFSET)).toMatchObject({ shown: 0, pictures: 0, total: null, senderClockMs: null });
  });

  it("tell the relay's part apart as soon as the relay says it", () => {
    const ledger = followed({});
    for (let number = 400; number < 500; number++) {
      ledger.relay({ capturedUs: captureUs(number) + (number % 3) - 1, received: 13_200, released: null, sent: 13_900 });
    }
    ledger.relay({ capturedUs: 5, received: 1, released: null, sent: 2 });
    const summary = ledger.summary(END_MS, OFFSET);
    expect(summary.pictures).toBe(100);
    expect(medians(summary)).toMatchObject({ relay: 0.7, network: 1.3, total: 24 });
  });

  it("tell what SRT has held back apart from the relay's part", () => {
    const ledger = followed({});
    for (let number = 400; number < 500; number++) {
      ledger.relay({ capturedUs: captureUs(number), received: 13_200, released: 13_600, sent: 13_900 });
    }
    expect(medians(ledger.summary(END_MS, OFFSET))).toMatchObject({ hold: 0.4, relay: 0.3, network: 1.3, total: 24 });
    // No part is longer than the way that it is of, which takes 2 ms.
    for (let number = 400; number < 500; number++) {
      ledger.relay({ capturedUs: captureUs(number), received: 13_200, released: 14_900, sent: 15_900 });
    }
    expect(medians(ledger.summary(END_MS, OFFSET))).toMatchObject({ hold: 1.7, relay: 0.3, network: 0, total: 24 });
  });

  it("take what the relay says of a picture before that is here", () => {
    const ledger = new StageLedger();
    for (let number = 0; number < 600; number++) ledger.relay({ capturedUs: captureUs(number) + 1, received: 13_200, released: null, sent: 13_900 });
    expect(medians(followed({}, ledger).summary(END_MS, OFFSET))).toMatchObject({ relay: 0.7, network: 1.3, total: 24 });
  });

  it("fall into the next one that is known", () => {
    expect(medians(followed({ records: false }).summary(END_MS, OFFSET))).toEqual({ network: 15, decode: 3, display: 6, total: 24 });
    expect(medians(followed({ decoded: false }).summary(END_MS, OFFSET))).toMatchObject({ network: 2, display: 9, total: 24 });
    expect(medians(followed({ capture: false }).summary(END_MS, OFFSET))).toEqual({ decode: 3, display: 6 });
    expect(medians(followed({}).summary(END_MS, null))).toMatchObject({ encode: 11, decode: 3, display: 6 });
    const ledger = new StageLedger();
    for (let number = 0; number < 100; number++) {
      ledger.shown(ledger.arrived(captureUs(number), null, NaN, number * INTERVAL_MS), NaN, number * INTERVAL_MS + 30);
    }
    expect(medians(ledger.summary(2000, OFFSET))).toEqual({ display: 30, total: 30 });
  });

  it("are known for a picture whose looks alone tell its capture", () => {
    const ledger = new StageLedger();
    for (let number = 0; number < 100; number++) {
      const place = ledger.arrived(null, null, number * INTERVAL_MS + 40, number * INTERVAL_MS);
      ledger.shown(place, number * INTERVAL_MS + 41, number * INTERVAL_MS + 45);
      ledger.captured(place, captureUs(number));
    }
    expect(medians(ledger.summary(2045, OFFSET))).toEqual({ network: 40, decode: 1, display: 4, total: 45 });
  });

  it("are left out of a picture whose successor is lost, and none gets another's", () => {
    const summary = followed({ arrives: (number) => number !== 300 }).summary(END_MS, OFFSET);
    expect(summary).toMatchObject({ shown: 500, pictures: 498 });
    expect(summary.total).toEqual({ p50: 24, p99: 24, count: 498 });
  });

  it("say so where pictures come from the future", () => {
    const summary = followed({ aheadMs: 5 }).summary(END_MS, OFFSET);
    expect(summary).toMatchObject({ fromTheFuture: 500, futureMs: 3, total: null });
    expect(medians(summary)).toEqual({ capture: 0.5, queue: 0.5, encode: 11, mux: 0.3, send: 0.7, decode: 3, display: 6 });
    // Within what a call takes and the clock may be off, the way took no time.
    const near = followed({ aheadMs: 3 }).summary(END_MS, OFFSET);
    expect(near).toMatchObject({ fromTheFuture: 0, total: { p50: 22 } });
    expect(medians(near).network).toBe(0);
  });

  it("are counted by the server's buckets", () => {
    const ledger = followed({});
    const report = ledger.report(END_MS - 10_000, Infinity, [500, 1000, 6000, 20_000], OFFSET);
    expect(report).toMatchObject({
      capture: [500, 0, 0, 0, 0], encode: [0, 0, 0, 500, 0], network: [0, 0, 500, 0, 0], display: [0, 0, 500, 0, 0],
      total: [0, 0, 0, 0, 500],
    });
    expect(report.relay).toBeUndefined();
    expect(ledger.report(END_MS - 1000, Infinity, [500], OFFSET).encode).toEqual([0, 50]);
  });

  it("are never nonsense, whatever the stamps are", () => {
    const out = new Float64Array(FIGURES);
    for (let seed = 1; seed <= 5000; seed++) {
      const next = random(seed);
      const stamp = (): number => {
        const kind = next();
        if (kind < 0.2) return NaN;
        return (next() - (kind < 0.4 ? 0.5 : 0)) * 10 ** Math.floor(next() * 18);
      };
      const stamps: Stamps = {
        arrived: stamp(), encoderIn: stamp(), lookAhead: NaN, encoded: stamp(), muxed: stamp(), sent: stamp(), relayReceived: stamp(),
        relayReleased: stamp(), relaySent: stamp(), received: stamp(), shown: stamp(), decodeUs: stamp(), displayUs: stamp(),
      };
      const future = split(stamps, 500, out);
      const told = `seed ${seed}: ${out.join()}`;
      for (const value of out) expect(Number.isNaN(value) || (value >= 0 && value <= 60e6), told).toBe(true);
      if (future > 0) expect([future > 1500, out[TOTAL]], told).toEqual([true, NaN]);
      if (!Number.isNaN(out[TOTAL]!)) {
        const sum = out.subarray(0, TOTAL).reduce((all, value) => all + (Number.isNaN(value) ? 0 : value), 0);
        expect(Math.abs(sum - out[TOTAL]!), told).toBeLessThan(1);
      }
    }
  });
});
