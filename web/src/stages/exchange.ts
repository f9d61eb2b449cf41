/**
 * What the page asks the server about pictures' stages, and, where the viewer agrees, tells it: the relay's stages once in
 * two seconds while somebody looks, and counts of what this viewer saw once in ten. Without timers: `tick` is called now and
 * then.
 */
import type { Offset } from "../clock";
import type { RelayStamps, StageLedger, StageReport } from "./ledger";

const ASK_MS = 2000;
const TELL_MS = 10_000;
/** Beyond this nobody is asked or told any more often. */
const ASK_MAX_MS = 60_000;
const TELL_MAX_MS = 160_000;
/** A picture is told this long after it was shown: until then the next one and the relay have said what they know of it. */
const COMPLETE_MS = 3000;
/** More than the server sends at once, and buckets than make sense. */
const PICTURES_MAX = 1200;
const EDGES_MAX = 64;
/** The server takes no larger counts. */
const COUNT_MAX = 10_000;

/** An answer of the server. */
export interface RelayAnswer {
  pictures: RelayStamps[];
  /** The ends of the buckets in which the server counts, in µs, ascending; null: it takes no figures. */
  edgesUs: number[] | null;
}

/** Reads an answer; what is no picture is passed over. Null where it is no answer at all. */
export function parseRelayAnswer(answer: unknown): RelayAnswer | null {
  const { pictures, edges_us: edges } = (typeof answer === "object" && answer !== null ? answer : {}) as Record<string, unknown>;
  if (!Array.isArray(pictures)) return null;
  const parsed = pictures.slice(0, PICTURES_MAX).flatMap((one: unknown): RelayStamps[] => {
    const said = (typeof one === "object" && one !== null ? one : {}) as Record<string, unknown>;
    const capturedUs = finite(said["captured_us"]);
    if (capturedUs === null) return [];
    return [{ capturedUs, received: finite(said["relay_received"]), released: finite(said["relay_released"]), sent: finite(said["relay_sent"]) ?? finite(said["relay_flushed"]) }];
  });
  return { pictures: parsed, edgesUs: isEdges(edges) ? edges : null };
}

function finite(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function isEdges(edges: unknown): edges is number[] {
  if (!Array.isArray(edges) || edges.length === 0 || edges.length > EDGES_MAX) return false;
  return edges.every((edge: unknown, at) => finite(edge) !== null && (at === 0 || (edge as number) > edges[at - 1]));
}

/** Whom it is all about, and how the server is reached. */
export interface ExchangeOptions {
  /** The stream that is played. */
  name(): string;
  stages(): StageLedger;
  offset(): Offset | null;
  /** An answer as parsed JSON; the status where there is none, null where nobody answers. */
  ask(name: string, afterUs: number | null): Promise<unknown>;
  /** The status; null where nobody answers. */
  tell(name: string, report: StageReport): Promise<number | null>;
}

/** How telling goes. */
export type Telling = "off" | "on" | "refused" | "slowed";

export class StageExchange {
  /** Somebody looks at the stages. */
  looking = false;
  private reports = false;
  private name = "";
  private afterUs: number | null = null;
  private edgesUs: number[] | null = null;
  private refused = false;
  private asking = false;
  private telling = false;
  private askWaitMs = ASK_MS;
  private tellWaitMs = TELL_MS;
  private askAtMs = -Infinity;
  private tellAtMs = -Infinity;
  /** The pictures up to this one have been told. */
  private toldMs = -Infinity;

  constructor(private readonly options: ExchangeOptions) {}

  /** Whether the viewer agrees to telling. */
  get reporting(): boolean {
    return this.reports;
  }

  report(agreed: boolean, nowMs: number): void {
    if (agreed === this.reports) return;
    this.reports = agreed;
    // What was shown before is not what the viewer agreed to tell.
    this.toldMs = nowMs;
    this.tellAtMs = nowMs + TELL_MS;
  }

  get state(): Telling {
    if (!this.reports) return "off";
    if (this.refused) return "refused";
    return this.tellWaitMs > TELL_MS ? "slowed" : "on";
  }

  /** Asks and tells what is due. */
  tick(nowMs: number): void {
    if (this.options.name() !== this.name) this.renamed(nowMs);
    if ((this.looking || this.reports) && !this.asking && nowMs >= this.askAtMs) void this.ask(nowMs);
    if (this.reports && !this.refused && !this.telling && nowMs >= this.tellAtMs) void this.tell(nowMs);
  }

  private renamed(nowMs: number): void {
    this.name = this.options.name();
    this.afterUs = null;
    this.edgesUs = null;
    this.refused = false;
    this.askWaitMs = ASK_MS;
    this.tellWaitMs = TELL_MS;
    this.askAtMs = -Infinity;
    this.toldMs = nowMs;
    this.tellAtMs = nowMs + TELL_MS;
  }

  private async ask(nowMs: number): Promise<void> {
    const { name } = this;
    this.asking = true;
    const answer = await this.options.ask(name, this.afterUs);
    this.asking = false;
    if (name !== this.name) return;
    const parsed = parseRelayAnswer(answer);
    this.askWaitMs = parsed ? ASK_MS : Math.min(ASK_MAX_MS, this.askWaitMs * 2);
    this.askAtMs = nowMs + this.askWaitMs;
    if (!parsed) return;
    this.edgesUs = parsed.edgesUs;
    const stages = this.options.stages();
    for (const picture of parsed.pictures) stages.relay(picture);
    // Nothing new: perhaps since the sender's clock was set back. Asked for everything the next time, the server tells.
    this.afterUs = parsed.pictures.at(-1)?.capturedUs ?? null;
  }

  private async tell(nowMs: number): Promise<void> {
    this.tellAtMs = nowMs + this.tellWaitMs;
    if (!this.edgesUs) return;
    const { name } = this;
    const toMs = nowMs - COMPLETE_MS;
    const report = this.options.stages().report(Math.max(this.toldMs, toMs - TELL_MS), toMs, this.edgesUs, this.options.offset());
    this.toldMs = Math.max(this.toldMs, toMs);
    for (const counts of Object.values(report)) counts.forEach((count, at) => (counts[at] = Math.min(COUNT_MAX, count)));
    if (Object.keys(report).length === 0) return;
    this.telling = true;
    const status = await this.options.tell(name, report);
    this.telling = false;
    if (name !== this.name || status === null) return;
    if (status === 429 || status >= 500) this.tellWaitMs = Math.min(TELL_MAX_MS, this.tellWaitMs * 2);
    else if (status >= 400) this.refused = true;
    else this.tellWaitMs = TELL_MS;
    this.tellAtMs = nowMs + this.tellWaitMs;
  }
}
