/**
 * The pictures of the last seconds with what is known of their way, from the sender, the relay and this page, and what comes
 * of it: percentiles for the page, counts for the server. A ring of numbers: a picture costs no memory of its own but its
 * place in the index by capture time.
 */
import { type Offset, timerStepMs } from "../clock";
import type { StampRecord } from "../media/stamp_record";
import { FIGURES, PARTS, type Part, type Stamps, TOTAL, split } from "./parts";

/** What the figures are of. */
export const WINDOW_MS = 10_000;
/** More pictures than ten seconds have. */
const PICTURES = 2048;
/** So much is left out after joining: servers send at once what has been since the last key frame. */
const SETTLE_MS = 1000;
/** Capture times are rounded down to whole µs on the way. */
const NEAR_US = [0, -1, 1] as const;

/** What the relay says of a picture, in µs after its capture; null: not known. */
export interface RelayStamps {
  capturedUs: number;
  received: number | null;
  released: number | null;
  sent: number | null;
}

/** One part of the way, or all of it, in ms. */
export interface PartFigures {
  p50: number;
  p99: number;
  /** Pictures of which it is known. */
  count: number;
}

/** Where the milliseconds of the last ten seconds went. */
export interface StageSummary {
  /** Pictures that the figures are of. */
  pictures: number;
  /** Null for a part that nobody tells. */
  parts: Record<Part, PartFigures | null>;
  total: PartFigures | null;
  /** Pictures that were here before their sender says that they had left, of those shown. */
  fromTheFuture: number;
  /** By how much at most they were, in ms. */
  futureMs: number;
  shown: number;
  /** How far the server's clock may be from what this page takes it for, in ms; null where it is not known yet. */
  clockMs: number | null;
  /** What the sender says of its own clock, in ms: infinite where nothing keeps it, null where it does not say. */
  senderClockMs: number | null;
}

/** Counts of pictures by how long a part took: in each bucket, and beyond the last one. */
export type StageReport = Partial<Record<Part | "total", number[]>>;

/** The columns of the ring. Stages are µs after capture, times are ms of this page. */
const COLUMNS = [
  "captured", "arrived", "encoderIn", "lookAhead", "encoded", "muxed", "sent", "relayReceived", "relayReleased", "relaySent", "receivedMs", "decodedMs", "shownMs",
] as const;
type Column = (typeof COLUMNS)[number];

export class StageLedger {
  private readonly columns = Object.fromEntries(COLUMNS.map((name) => [name, new Float64Array(PICTURES).fill(NaN)])) as Record<Column, Float64Array>;
  private readonly places = new Map<number, number>();
  /** What the relay said of pictures that are not here yet. */
  private readonly early = new Map<number, RelayStamps>();
  /** Pictures ever noted: the number of the next one. */
  private next = 0;
  private settledMs = Infinity;
  private clockErrorUs: number | null = null;
  private readonly stamps: Stamps = {
    arrived: NaN, encoderIn: NaN, lookAhead: NaN, encoded: NaN, muxed: NaN, sent: NaN, relayReceived: NaN, relayReleased: NaN, relaySent: NaN,
    received: NaN, shown: NaN, decodeUs: NaN, displayUs: NaN,
  };
  private readonly figures = new Float64Array(FIGURES);
  private readonly sorted = Array.from({ length: FIGURES }, () => new Float64Array(PICTURES));
  private readonly counts = new Uint16Array(FIGURES);

  /** A stream is joined, at first or anew: what is known belongs to another one, or to before an outage. */
  restart(): void {
    for (const column of Object.values(this.columns)) column.fill(NaN);
    this.places.clear();
    this.early.clear();
    this.settledMs = Infinity;
    this.clockErrorUs = null;
  }

  /**
   * A picture came, whose last byte was in this page at `receivedMs` (NaN: not known). What its record says of the picture
   * before goes there. Returns the number by which `shown` finds it.
   */
  arrived(captureUs: number | null, record: StampRecord | null, receivedMs: number, nowMs: number): number {
    if (this.settledMs === Infinity) this.settledMs = nowMs + SETTLE_MS;
    const number = this.next++;
    const at = number % PICTURES;
    const { columns, places } = this;
    if (places.get(columns.captured[at]!) === at) places.delete(columns.captured[at]!);
    for (const name of COLUMNS) columns[name][at] = NaN;
    columns.receivedMs[at] = receivedMs;
    if (captureUs !== null) {
      columns.captured[at] = captureUs;
      places.set(captureUs, at);
      this.relayedBefore(captureUs);
    }
    if (record && captureUs !== null) this.record(at, captureUs, record);
    return number;
  }

  private record(at: number, captureUs: number, record: StampRecord): void {
    const { columns } = this;
    this.clockErrorUs = record.clockErrorUs;
    columns.arrived[at] = record.arrived ?? NaN;
    columns.encoderIn[at] = record.encoderIn ?? NaN;
    columns.lookAhead[at] = record.lookAhead ?? NaN;
    const { previous } = record;
    // The time between is rounded down, and so are both capture times: it may be off by one.
    const before = previous && (this.places.get(captureUs - previous.agoUs) ?? this.places.get(captureUs - previous.agoUs - 1));
    if (!previous || before === undefined || before === null) return;
    columns.encoded[before] = previous.encoded ?? NaN;
    columns.muxed[before] = previous.muxed ?? NaN;
    columns.sent[before] = previous.sent ?? NaN;
  }

  /** What the relay says of a picture, which may not be here yet. */
  relay(stamps: RelayStamps): void {
    for (const off of NEAR_US) {
      const at = this.places.get(stamps.capturedUs + off);
      if (at === undefined) continue;
      this.columns.relayReceived[at] = stamps.received ?? NaN;
      this.columns.relayReleased[at] = stamps.released ?? NaN;
      this.columns.relaySent[at] = stamps.sent ?? NaN;
      return;
    }
    this.early.set(stamps.capturedUs, stamps);
    if (this.early.size > PICTURES) this.early.delete(this.early.keys().next().value!);
  }

  private relayedBefore(captureUs: number): void {
    if (this.early.size === 0) return;
    for (const off of NEAR_US) {
      const stamps = this.early.get(captureUs + off);
      if (!stamps) continue;
      this.early.delete(stamps.capturedUs);
      this.relay(stamps);
      return;
    }
  }

  /** When picture `number` was captured, where only its looks tell that. */
  captured(number: number, captureUs: number): void {
    const at = this.placeOf(number);
    if (at !== null && Number.isNaN(this.columns.captured[at]!)) this.columns.captured[at] = captureUs;
  }

  /** Picture `number` came out of the decoder at `decodedMs` (NaN: not known) and was shown at `shownMs`. */
  shown(number: number, decodedMs: number, shownMs: number): void {
    const at = this.placeOf(number);
    if (at === null || shownMs < this.settledMs) return;
    this.columns.decodedMs[at] = decodedMs;
    this.columns.shownMs[at] = shownMs;
  }

  private placeOf(number: number): number | null {
    return number >= 0 && number < this.next && number >= this.next - PICTURES ? number % PICTURES : null;
  }

  /** Where the milliseconds went of the pictures shown in the last ten seconds. */
  summary(nowMs: number, offset: Offset | null): StageSummary {
    const told = this.collect(nowMs - WINDOW_MS, Infinity, offset);
    const figure = (at: number): PartFigures | null => {
      const count = this.counts[at]!;
      if (count === 0) return null;
      const values = this.sorted[at]!.subarray(0, count).sort();
      const rank = (share: number): number => values[Math.max(0, Math.ceil(share * count) - 1)]! / 1000;
      return { p50: rank(0.5), p99: rank(0.99), count };
    };
    return {
      ...told,
      parts: Object.fromEntries(PARTS.map((part, at) => [part, figure(at)])) as StageSummary["parts"],
      total: figure(TOTAL),
      clockMs: uncertaintyMs(offset),
      senderClockMs: this.clockErrorUs === null ? null : this.clockErrorUs / 1000,
    };
  }

  /** Counts of the pictures shown from `fromMs` to before `toMs`: how many took up to each of `edgesUs`, and one more for what took longer. */
  report(fromMs: number, toMs: number, edgesUs: readonly number[], offset: Offset | null): StageReport {
    this.collect(fromMs, toMs, offset);
    const report: StageReport = {};
    for (const [at, name] of [...PARTS, "total" as const].entries()) {
      const count = this.counts[at]!;
      if (count === 0) continue;
      const buckets = new Array<number>(edgesUs.length + 1).fill(0);
      for (const value of this.sorted[at]!.subarray(0, count)) {
        const bucket = edgesUs.findIndex((edge) => value <= edge);
        buckets[bucket < 0 ? edgesUs.length : bucket]! += 1;
      }
      report[name] = buckets;
    }
    return report;
  }

  /**
   * Gathers the parts of each picture shown from `fromMs` to before `toMs`. Where the sender says its stages, it is pictures that have all
   * of them; the last one's are still to come. Likewise with the relay's, which come late.
   */
  private collect(fromMs: number, toMs: number, offset: Offset | null): { pictures: number; shown: number; fromTheFuture: number; futureMs: number } {
    this.counts.fill(0);
    const told = { pictures: 0, shown: 0, fromTheFuture: 0, futureMs: 0 };
    let best = 0;
    this.each(fromMs, toMs, (at) => {
      told.shown += 1;
      best = Math.max(best, this.knowledge(at));
    });
    const uncertaintyUs = (uncertaintyMs(offset) ?? 0) * 1000;
    this.each(fromMs, toMs, (at) => {
      if (this.knowledge(at) !== best) return;
      told.pictures += 1;
      const future = split(this.load(at, offset), uncertaintyUs, this.figures);
      if (future > 0) told.fromTheFuture += 1;
      told.futureMs = Math.max(told.futureMs, future / 1000);
      for (let figure = 0; figure < FIGURES; figure++) {
        const value = this.figures[figure]!;
        if (!Number.isNaN(value)) this.sorted[figure]![this.counts[figure]!++] = value;
      }
    });
    return told;
  }

  /** How much is known of a picture beyond what this page saw: the sender's last stages count more than the relay's. */
  private knowledge(at: number): number {
    const { encoded, muxed, sent, relaySent, relayReceived } = this.columns;
    const isTold = !(Number.isNaN(encoded[at]!) && Number.isNaN(muxed[at]!) && Number.isNaN(sent[at]!));
    return (isTold ? 2 : 0) + (Number.isNaN(relaySent[at]! - relayReceived[at]!) ? 0 : 1);
  }

  private each(fromMs: number, toMs: number, look: (at: number) => void): void {
    const { shownMs } = this.columns;
    for (let number = this.next - 1; number >= Math.max(0, this.next - PICTURES); number--) {
      const at = number % PICTURES;
      if (shownMs[at]! >= fromMs && shownMs[at]! < toMs) look(at);
    }
  }

  private load(at: number, offset: Offset | null): Stamps {
    const { stamps, columns } = this;
    stamps.arrived = columns.arrived[at]!;
    stamps.encoderIn = columns.encoderIn[at]!;
    stamps.lookAhead = columns.lookAhead[at]!;
    stamps.encoded = columns.encoded[at]!;
    stamps.muxed = columns.muxed[at]!;
    stamps.sent = columns.sent[at]!;
    stamps.relayReceived = columns.relayReceived[at]!;
    stamps.relayReleased = columns.relayReleased[at]!;
    stamps.relaySent = columns.relaySent[at]!;
    const [received, decoded, shown] = [columns.receivedMs[at]!, columns.decodedMs[at]!, columns.shownMs[at]!];
    const onServer = (ms: number): number => (offset ? offset.offsetUs + ms * 1000 - columns.captured[at]! : NaN);
    stamps.received = onServer(received);
    stamps.shown = onServer(shown);
    stamps.decodeUs = (decoded - received) * 1000;
    stamps.displayUs = (shown - (Number.isNaN(decoded) ? received : decoded)) * 1000;
    return stamps;
  }
}

/** How far the server's clock may be from what it is taken for, in ms; null where it is not known. */
function uncertaintyMs(offset: Offset | null): number | null {
  return offset && Math.max(offset.roundTripMs / 2, timerStepMs());
}
