/** Where the milliseconds of a stream go, over ten minutes: by what its sender and this server saw, and by what viewers told. */
import { type Latency, latency } from "../api";
import type { Part } from "../stages/parts";
import { Chart, timeAxis } from "./chart";
import { element, setText } from "./dom";
import { PART_WORDS, fine } from "./stage_words";

/** The server counts in steps of ten seconds: more often there is nothing new. */
const REFRESH_MS = 5000;
const SPAN_S = 600;
const STEPS_MAX = 600;

const NOTHING = "Nothing is known: pictures of this stream do not say when they were captured, as those of glassline encode do, or this server does not tell.";
const NO_REPORTS = "No viewer tells what it sees. Each is asked on its page, in the bar that opens from the delay; ?report=1 in the page's address agrees to it.";

/** Parts in the order of the way, bottom up: what this server sees itself, and what viewers alone know. */
const SERVER_PARTS: readonly Part[] = ["capture", "queue", "look_ahead", "encode", "mux", "send", "hold", "relay"];
const VIEWER_PARTS: readonly Part[] = ["network", "decode", "display"];

/** The medians of `parts` in ms for each step of the last ten minutes, the newest last; null where a step says nothing. */
export function medianLines(steps: readonly { t_us: number; stages: Latency["relay"][number]["stages"] }[], parts: readonly Part[], { step_s, now_us }: Latency): (number | null)[][] {
  const length = Math.max(1, Math.min(STEPS_MAX, Math.round(SPAN_S / step_s)));
  const lines = parts.map(() => Array<number | null>(length).fill(null));
  for (const { t_us, stages } of steps) {
    const index = length - 1 - Math.floor((now_us - t_us) / (step_s * 1e6));
    if (index < 0 || index >= length) continue;
    parts.forEach((part, line) => {
      const median = stages[part]?.p50_us;
      if (typeof median === "number" && median >= 0) lines[line]![index] = median / 1000;
    });
  }
  return lines;
}

/** The newest of what viewers told. */
export function reportsText(viewers: Latency["viewers"]): string {
  const last = viewers[viewers.length - 1];
  if (!last) return NO_REPORTS;
  const { total } = last.stages;
  const all = total ? ` From capture to the screen half of the pictures took ${fine(total.p50_us / 1000)}, 99 of 100 took ${fine(total.p99_us / 1000)} at most.` : "";
  return `${last.reports.toLocaleString("en")} ${last.reports === 1 ? "report" : "reports"} in the newest step.${all} Viewers that agreed to it tell this, and nothing about themselves.`;
}

export class LatencyPanel {
  private readonly note = element("p", { class: "hint", role: "status" }, NOTHING);
  private readonly told = element("p", { class: "hint", hidden: true }, "Medians of ten seconds each, stacked");
  private readonly reports = element("p", { class: "hint" });
  private readonly server: Chart;
  private readonly viewers: Chart;
  private readonly charts: HTMLElement;
  private askedMs = -Infinity;
  readonly element: HTMLElement;

  constructor(private readonly name: string) {
    const chart = (title: string, parts: readonly Part[]): Chart => new Chart({
      title, stacked: true, format: fine, leastTop: 10,
      lines: parts.map((part) => ({ label: PART_WORDS[part].label, className: `part-${part}` })),
      onPoint: (index) => [this.server, this.viewers].forEach((one) => one.point(index)),
    });
    this.server = chart("Capture to server", SERVER_PARTS);
    this.viewers = chart("Server to screen, by viewers", VIEWER_PARTS);
    this.charts = element("div", { class: "charts", hidden: true },
      this.server.element, element("div", {}, this.viewers.element, this.reports));
    this.element = element(
      "section", { class: "panel latency", "aria-label": "Where the milliseconds go" },
      element("header", {}, element("h2", {}, "Where the milliseconds go"), this.told),
      this.note, this.charts,
    );
  }

  async refresh(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.askedMs < REFRESH_MS) return;
    this.askedMs = nowMs;
    const answer = await latency(this.name);
    const isKnown = answer !== null && answer.relay.length + answer.viewers.length > 0;
    this.charts.hidden = !isKnown;
    this.told.hidden = !isKnown;
    this.note.hidden = isKnown;
    if (answer === null || !isKnown) return;
    const show = (chart: Chart, steps: Latency["relay"], parts: readonly Part[]): void => {
      const lines = medianLines(steps, parts, answer);
      const { length } = lines[0]!;
      chart.show({ lines, axis: timeAxis(length, length, answer.step_s, (index) => (answer.now_us / 1000) - (length - 1 - index) * answer.step_s * 1000) });
    };
    show(this.server, answer.relay, SERVER_PARTS);
    show(this.viewers, answer.viewers, VIEWER_PARTS);
    this.viewers.element.hidden = answer.viewers.length === 0;
    setText(this.reports, reportsText(answer.viewers));
  }
}
