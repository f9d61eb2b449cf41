/** The page `/stream/NAME`: how a stream and its viewers are and were. For the crew. */
import {
  carriedMux, type Clients, clients, type Curves, type EncoderStatus, encoders, history, isLadder, type StreamInfo, streamInfo, watchPath, type Why,
} from "../api";
import { type CurveName, History } from "../history";
import { Chart, type ChartOptions, timeAxis } from "./chart";
import { ConnectionsPanel } from "./connections";
import { KEY } from "../operator";
import { ROOT } from "../root";
import { brand, codecsText, noteTexts, stateClass, stateWord } from "./dashboard";
import { element, setText } from "./dom";
import { FlightView } from "./flight_view";
import { age, bitrate, countOf, delayOnAxis, duration } from "./format";
import { LatencyPanel } from "./latency";
import { ObjectsPanel } from "./objects";
import { ViewersTable } from "./viewers";
import { WaysPanel } from "./ways";
import { BehindBars, WHY_WORDS } from "./why";

const REFRESH_MS = 2000;

interface Curve {
  options: Omit<ChartOptions, "onPoint">;
  names: CurveName[];
}

const CURVES: Curve[] = [
  {
    names: ["in_bps"],
    options: { title: "Bit rate", lines: [{ label: "from the publisher", className: "line-a", filled: true }], format: bitrate, leastTop: 1e5 },
  },
  {
    names: ["viewers", "slow"],
    options: {
      title: "Viewers", lines: [{ label: "all", className: "line-a", filled: true }, { label: "slow", className: "line-d", filled: true }],
      format: (count) => count.toLocaleString("en", { maximumFractionDigits: 1 }), leastTop: 1, whole: true,
    },
  },
  {
    names: ["behind_p50_ms", "behind_p95_ms"],
    options: {
      title: "Behind live", lines: [{ label: "median", className: "line-b" }, { label: "95th percentile", className: "line-c" }],
      format: age, onAxis: delayOnAxis, leastTop: 100,
    },
  },
  {
    names: ["out_bps"],
    options: { title: "To all viewers", lines: [{ label: "sent", className: "line-a", filled: true }], format: bitrate, leastTop: 1e5 },
  },
];

/** The curves, over ten minutes or six hours. */
class CurvesPanel {
  private readonly charts: { chart: Chart; names: CurveName[] }[];
  private readonly histories: Record<1 | 10, History> = { 1: new History(1, 600), 10: new History(10, 2160) };
  private readonly askedMs: Record<1 | 10, number> = { 1: 0, 10: 0 };
  private readonly buttons: Record<1 | 10, HTMLButtonElement>;
  private step: 1 | 10 = 1;
  readonly element: HTMLElement;

  constructor(private readonly name: string) {
    this.charts = CURVES.map(({ options, names }) => {
      const chart = new Chart({ ...options, onPoint: (index) => this.charts.forEach((one) => one.chart.point(index)) });
      return { chart, names };
    });
    const choose = (step: 1 | 10, words: string): HTMLButtonElement =>
      element("button", { type: "button", class: "choice", onclick: () => this.choose(step) }, words);
    this.buttons = { 1: choose(1, "10 minutes"), 10: choose(10, "6 hours") };
    this.element = element(
      "section", { class: "panel", "aria-label": "Over time" },
      element("header", {}, element("h2", {}, "Over time"),
        element("div", { class: "choices", role: "group", "aria-label": "How far back" }, this.buttons[1], this.buttons[10])),
      element("div", { class: "charts" }, ...this.charts.map(({ chart }) => chart.element)),
    );
    this.showChoice();
  }

  async refresh(): Promise<void> {
    const { step } = this;
    const now = performance.now();
    const curves = await history(this.name, step, this.histories[step].missing(now - this.askedMs[step]));
    if (!curves) return;
    this.askedMs[step] = now;
    this.take(curves);
  }

  private take(curves: Curves): void {
    const known = this.histories[curves.step_s === 10 ? 10 : 1];
    known.merge(curves);
    if (known.stepS === this.step) this.draw();
  }

  private draw(): void {
    const known = this.histories[this.step];
    // A young stream's curve does not begin as a dot at the right edge of ten minutes.
    const span = Math.max(known.length, 60);
    for (const { chart, names } of this.charts) {
      chart.show({
        lines: names.map((name) => known.values(name)),
        axis: timeAxis(known.length, span, known.stepS, (index) => known.timeMs(index)),
      });
    }
  }

  private choose(step: 1 | 10): void {
    this.step = step;
    this.showChoice();
    this.draw();
    void this.refresh();
  }

  private showChoice(): void {
    for (const step of [1, 10] as const) this.buttons[step].setAttribute("aria-pressed", String(step === this.step));
  }
}

/** Who watches, or why that is not told. */
class ViewersPanel {
  private readonly table = new ViewersTable();
  private readonly note = element("p", { class: "hint", role: "status" }, "Asking the server…");
  private readonly key = element("input", { type: "password", autocomplete: "off", "aria-label": "Publish key", placeholder: "Publish key" });
  private readonly form = element(
    "form", { class: "key-form", hidden: true }, this.key, element("button", { type: "submit", class: "action" }, "Show viewers"));
  readonly element: HTMLElement;

  constructor(private readonly name: string) {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, this.key.value);
      this.key.value = "";
      void this.refresh();
    });
    this.table.element.hidden = true;
    this.element = element(
      "section", { class: "panel", "aria-label": "Viewers" },
      element("header", {}, element("h2", {}, "Viewers"), this.note), this.form, this.table.element,
    );
  }

  async refresh(): Promise<void> {
    const key = sessionStorage.getItem(KEY) ?? "";
    const answer = await clients(this.name, key);
    if (answer === null) {
      setText(this.note, "No answer. Trying again…");
      return;
    }
    const refused = typeof answer === "number";
    this.form.hidden = !refused || answer === 404;
    if (refused) {
      this.table.element.hidden = true;
      setText(this.note, refusalText(answer, key !== ""));
      return;
    }
    this.table.element.hidden = answer.clients.length === 0;
    this.table.show(answer.clients);
    setText(this.note, countText(answer));
  }
}

export function refusalText(status: number, hasKey: boolean): string {
  if (status !== 401 && status !== 403) return `The server does not list viewers here (${status}).`;
  if (hasKey) return "That key does not open the list.";
  if (status === 401) return "Viewers' addresses are shown to who has the publish key.";
  return "Viewers' addresses are shown on the server's own machine, in the networks that its configuration names, and with the publish key, where there is one.";
}

export function countText(answer: Pick<Clients, "viewers" | "clients" | "rate_bps">): string {
  if (answer.viewers === 0) return "Nobody is watching.";
  const all = `${answer.viewers.toLocaleString("en")} ${answer.viewers === 1 ? "viewer" : "viewers"}, ${bitrate(answer.rate_bps)} together`;
  return answer.clients.length < answer.viewers ? `${all}; the ${answer.clients.length} furthest behind are shown` : all;
}

/** What is now, in large figures. */
class Facts {
  readonly element = element("dl", { class: "tiles" });
  private readonly values = new Map<string, HTMLElement>();

  show(facts: readonly (readonly [string, string])[]): void {
    for (const [label, value] of facts) {
      let node = this.values.get(label);
      if (!node) {
        node = element("dd");
        this.values.set(label, node);
        this.element.append(element("div", {}, element("dt", {}, label), node));
      }
      setText(node, value);
    }
  }
}

/** What the encoder that makes stream `name` says of it, where this server encodes it. */
export function encoderFacts(all: readonly EncoderStatus[], name: string): (readonly [string, string])[] {
  const own = all.find((one) => one.name === name);
  if (!own) return [];
  const state = own.error ? `${own.state}: ${own.error}` : own.state;
  if (!own.running) return [["Encoder", state]];
  const { pictures, dropped } = own.running;
  return [["Encoder", state], ["Dropped by the encoder", `${dropped.toLocaleString("en")} of ${countOf(pictures + dropped, "picture")}`]];
}

/** How many viewers are slow, whatever the reason. */
function slowCount(why: StreamInfo["why"]): number {
  return Object.entries(why ?? {}).reduce((sum, [one, count]) => sum + (one === "fine" ? 0 : count), 0);
}

/** Shows the figures of stream `name` in `root` and keeps them fresh. */
export function streamPage(root: HTMLElement, name: string): void {
  document.title = `${name}, figures · Glassline`;
  const state = element("span", { class: "badge" }, "…");
  const trouble = element("p", { class: "banner", role: "alert", hidden: true });
  const codecs = element("p", { class: "codecs" });
  const notes = element("p", { class: "notes", hidden: true });
  const facts = new Facts();
  const bars = new BehindBars();
  const meanings = element("dl", { class: "meanings" }, ...(Object.keys(WHY_WORDS) as Why[]).flatMap((why) => [
    element("dt", {}, element("span", { class: `why why-${why}` }, WHY_WORDS[why].label)), element("dd", {}, `${WHY_WORDS[why].meaning}.`),
  ]));
  const curves = new CurvesPanel(name);
  const viewers = new ViewersPanel(name);
  const objects = new ObjectsPanel(name);
  const latency = new LatencyPanel(name);
  const connections = new ConnectionsPanel();
  let stream: StreamInfo | null = null;
  const watch = element("a", { href: watchPath(name), class: "action" }, "Watch");
  const flight = new FlightView(name, () => stream?.mux ?? "ts");
  const body = element("div", { class: "panels" },
    element("section", { class: "panel now", "aria-label": "Now" }, facts.element, codecs, notes),
    curves.element,
    element("section", { class: "panel", "aria-label": "Behind live" },
      element("header", {}, element("h2", {}, "Behind live, now"), element("p", { class: "hint" }, "Viewers, by the age of the oldest byte that has not left for them")),
      element("div", { class: "behind" }, bars.element, meanings)),
    latency.element, connections.element, objects.element, viewers.element, flight.element, new WaysPanel(name).element);
  root.append(
    element("div", { class: "page" },
      element("header", { class: "top" },
        element("h1", {}, element("a", { href: ROOT, class: "home", "aria-label": "All streams" }, brand()), name, state),
        element("nav", { class: "links" }, watch)),
      trouble, body),
  );

  const show = (found: StreamInfo): void => {
    watch.href = watchPath(name, found.access);
    state.className = stateClass(found);
    setText(state, stateWord(found));
    const mux = carriedMux(found);
    setText(codecs, mux === null ? codecsText(found) : `${mux}, carried as it is`);
    const texts = noteTexts(found);
    notes.hidden = texts.length === 0;
    setText(notes, texts.join(" · "));
    facts.show([
      ["Bit rate", bitrate(found.bitrate_bps)],
      ["Viewers", found.viewers.toLocaleString("en")],
      ["Slow", slowCount(found.why).toLocaleString("en")],
      ["Paced at", found.pacing_bps ? bitrate(found.pacing_bps) : "not paced"],
      ["Sent again", countOf(found.retransmitted_segments ?? 0, "segment")],
      ["Skipped to live", countOf(found.moved_forward, "time")],
      ["Newest byte", `${age(found.newest_byte_age_ms)} ago`],
      ["Up for", duration(found.uptime_s)],
    ]);
    if (found.behind) bars.show(found.behind);
    connections.show(found);
  };
  const refresh = async (): Promise<void> => {
    const answer = await streamInfo(name);
    const found = isLadder(answer) ? null : answer;
    trouble.hidden = found !== null;
    body.classList.toggle("old", found === null);
    if (found) {
      stream = found;
      show(found);
      for (const fact of encoderFacts(await encoders(), name)) facts.show([fact]);
      await Promise.all([curves.refresh(), viewers.refresh(), objects.refresh(), latency.refresh()]);
    } else {
      setText(trouble, `The server knows no stream ${name} now, or does not answer. Trying again…`);
    }
    window.setTimeout(() => void refresh(), document.hidden ? 5 * REFRESH_MS : REFRESH_MS);
  };
  void refresh();
}
