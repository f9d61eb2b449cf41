/** How long requests for objects waited for their first byte, by name: a section of the dashboard, a panel of a stream's page. */
import { type NamedObjects, type Objects, objects } from "../api";
import { Chart, timeAxis } from "./chart";
import { element, setText } from "./dom";
import { waited } from "./format";
import { Sparkline } from "./sparkline";
import { cumulated, distributionWords, factsOf, hitShare, percent, shownName, stepOf, stepWords, waitAxis } from "./waits";

const REFRESH_MS = 2000;

/** The two charts of one name: percentiles over ten minutes, and the distribution of all in them. */
export class ObjectCharts {
  private readonly percentiles: Chart = new Chart({
    title: "First byte over time",
    lines: [{ label: "p50", className: "line-b" }, { label: "p95", className: "line-c" }, { label: "p99", className: "line-d" }],
    format: waited, leastTop: 1, onPoint: (index) => this.percentiles.point(index),
  });
  private readonly distribution: Chart = new Chart({
    title: "First byte within",
    lines: [{ label: "made already", className: "line-a", filled: true }, { label: "not made yet", className: "line-c" }],
    format: (share) => percent(share / 100), leastTop: 100, onPoint: (index) => this.distribution.point(index),
  });
  private readonly step = element("p", { class: "notes", hidden: true });
  private readonly facts = element("dl", { class: "meanings" });
  readonly element = element(
    "div", { class: "object-charts" },
    element("div", { class: "charts" }, this.percentiles.element, this.distribution.element), this.step, this.facts,
  );

  show(named: NamedObjects, edgesMs: readonly number[]): void {
    const { windows } = named;
    // The curve of a name that was not asked for earlier does not begin as a dot at the right edge of ten minutes.
    const from = quietWindows(windows.requests);
    const length = windows.requests.length - from;
    const beginsMs = windows.begins_utc_us / 1000;
    this.percentiles.show({
      lines: [windows.p50_ms, windows.p95_ms, windows.p99_ms].map((line) => line.slice(from)),
      axis: timeAxis(length, length, windows.step_s, (index) => beginsMs + (from + index + 1) * windows.step_s * 1000),
    });
    this.distribution.show({
      lines: [cumulated(edgesMs, named.distribution), cumulated(edgesMs, named.awaited_distribution)],
      axis: waitAxis(edgesMs),
      resting: named.p95_ms === null ? "–" : `95 % within ${waited(named.p95_ms)}`,
      told: distributionWords(edgesMs, named),
    });
    const step = stepOf(edgesMs, named.distribution);
    this.step.hidden = step === null;
    setText(this.step, step === null ? "" : `${stepWords(step)}, as of a server that sleeps on a lock or a timer.`);
    const facts = factsOf(named);
    if (this.facts.children.length !== 2 * facts.length) {
      this.facts.replaceChildren(...facts.flatMap(() => [element("dt"), element("dd")]));
    }
    facts.flat().forEach((text, index) => setText(this.facts.children[index]!, text));
  }
}

/** One name: a row of figures, and below it the charts where it is open. */
class Row {
  private readonly button: HTMLButtonElement;
  private readonly cells: HTMLElement[] = ["", "", " median", "", ""].map((more) => element("td", { class: `number${more}` }));
  private readonly spark: Sparkline;
  private readonly place = element("td", { colspan: "7" });
  private readonly detail: HTMLTableRowElement;
  private charts: ObjectCharts | null = null;
  private last: { named: NamedObjects; edgesMs: readonly number[] } | null = null;
  readonly rows: HTMLTableRowElement[];

  constructor(name: string, number: number) {
    const id = `objects-${number}`;
    const shown = shownName(name);
    this.spark = new Sparkline(`p95 of ${shown} over ten minutes`);
    this.button = element(
      "button", { type: "button", class: "row-button", "aria-expanded": "false", "aria-controls": id, onclick: () => this.toggle() }, shown);
    this.detail = element("tr", { id, class: "detail", hidden: true }, this.place);
    this.rows = [
      element("tr", {}, element("th", { scope: "row" }, this.button), ...this.cells, element("td", { class: "spark-cell" }, this.spark.element)),
      this.detail,
    ];
  }

  update(named: NamedObjects, edgesMs: readonly number[]): void {
    this.last = { named, edgesMs };
    const minute = named.last_minute;
    const share = hitShare(minute);
    const texts = [
      rateText(minute.requests_per_s), share === null ? "–" : percent(share), waited(minute.p50_ms), waited(minute.p95_ms), waited(minute.p99_ms),
    ];
    texts.forEach((text, index) => setText(this.cells[index]!, text));
    this.spark.show(named.windows.p95_ms.map((ms) => ms ?? 0));
    this.draw();
  }

  private toggle(): void {
    this.detail.hidden = !this.detail.hidden;
    this.button.setAttribute("aria-expanded", String(!this.detail.hidden));
    this.draw();
  }

  private draw(): void {
    if (this.detail.hidden || this.last === null) return;
    if (this.charts === null) {
      this.charts = new ObjectCharts();
      this.place.append(this.charts.element);
    }
    this.charts.show(this.last.named, this.last.edgesMs);
  }
}

/** The last minute is shown in any case. */
const SHOWN_WINDOWS = 6;

/** How many windows from the oldest on nobody asked in, and nothing is to be shown of. */
export function quietWindows(requests: readonly number[]): number {
  const first = requests.findIndex((count) => count > 0);
  return Math.max(0, Math.min(first < 0 ? requests.length : first, requests.length - SHOWN_WINDOWS));
}

export function rateText(perSecond: number): string {
  if (perSecond >= 100) return Math.round(perSecond).toLocaleString("en");
  return perSecond.toFixed(perSecond >= 10 ? 0 : 1);
}

/** The section of the dashboard. It is there where anything was asked for in the last ten minutes and the server tells of it. */
export class ObjectsSection {
  private readonly body = element("tbody");
  private readonly note = element("p", { class: "hint" });
  private readonly rows = new Map<string, Row>();
  private made = 0;
  readonly element: HTMLElement;

  constructor() {
    const heads: [string, string, string][] = [
      ["Req/s", "number", "Requests a second"], ["Here", "number", "Requests for what was here already"], ["p50", "number median", "Half waited no longer for the first byte"],
      ["p95", "number", "95 of 100 waited no longer"], ["p99", "number", "99 of 100 waited no longer"], ["p95, 10 min", "spark-cell", ""],
    ];
    this.element = element(
      "section", { class: "panel objects", "aria-label": "Objects", hidden: true },
      element("header", {}, element("h2", {}, "Objects"), this.note),
      element("div", { class: "table-place" },
        element("table", {},
          element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Name"),
            ...heads.map(([words, name, title]) => element("th", { scope: "col", class: name, title }, words)))),
          this.body)),
    );
  }

  /** Asks the server again and again, for as long as it tells. */
  async run(): Promise<void> {
    const answer = await objects(null);
    const isTold = answer !== null && typeof answer !== "number";
    if (isTold) this.show(answer);
    this.element.classList.toggle("old", answer === null);
    // Who may not know is refused each time: once is enough.
    if (isTold || answer === null) window.setTimeout(() => void this.run(), document.hidden ? 5 * REFRESH_MS : REFRESH_MS);
  }

  private show({ names, edges_ms, objects: list }: Objects): void {
    this.element.hidden = list.length === 0;
    const count = list.length < names ? `the ${list.length} most asked for of ${names}; ` : "";
    setText(this.note, `${count}how long requests waited for the first byte, in the last minute`);
    const known = new Set(list.map((named) => named.name));
    for (const [name, row] of this.rows) {
      if (known.has(name)) continue;
      row.rows.forEach((one) => one.remove());
      this.rows.delete(name);
    }
    // By name, so that no row moves under a pointer.
    const sorted = [...list].sort((a, b) => shownName(a.name).localeCompare(shownName(b.name)));
    sorted.forEach((named, index) => {
      const row = this.rows.get(named.name) ?? new Row(named.name, (this.made += 1));
      this.rows.set(named.name, row);
      row.update(named, edges_ms);
      row.rows.forEach((one, half) => {
        const at = 2 * index + half;
        if (this.body.children[at] !== one) this.body.insertBefore(one, this.body.children[at] ?? null);
      });
    });
  }
}

/** The panel of a stream's page: there where the stream's objects are asked for. */
export class ObjectsPanel {
  private readonly charts = new ObjectCharts();
  private isRefused = false;
  readonly element = element(
    "section", { class: "panel objects", "aria-label": "Objects", hidden: true },
    element("header", {}, element("h2", {}, "Objects"),
      element("p", { class: "hint" }, "How long requests for playlists, segments and parts waited for the first byte")),
    this.charts.element,
  );

  constructor(private readonly name: string) {}

  async refresh(): Promise<void> {
    if (this.isRefused) return;
    const answer = await objects(this.name);
    if (answer === null) return;
    if (typeof answer === "number") {
      this.isRefused = true;
      return;
    }
    const [named] = answer.objects;
    this.element.hidden = named === undefined;
    if (named) this.charts.show(named, answer.edges_ms);
  }
}
