/** Curves over an axis of time or of another quantity, with the value under the pointer. Pointer, touch and arrow keys move one mark through all charts. */
import { element, setText, svg } from "./dom";

const HEIGHT = 132;
const TOP = 8;
const BOTTOM = 20;
const RIGHT = 6;
/** Room for the axis' labels. */
const LEFT = 62;

export interface LineStyle {
  /** What it is, for the readout and the legend. */
  label: string;
  /** `line-a` to `line-c`. */
  className: string;
  /** Whether the room below it is filled. */
  filled?: boolean;
}

export interface ChartOptions {
  title: string;
  lines: LineStyle[];
  /** A value in words. */
  format(value: number): string;
  /** A value on the axis, which ends at `top`; without it, as everywhere. */
  onAxis?(value: number, top: number): string;
  /** The axis never ends below this. */
  leastTop: number;
  /** A few values far above the others are cut off, and told, so that the others can be seen. */
  cutsOutliers?: boolean;
  /** The axis' steps are whole numbers. */
  whole?: boolean;
  /** The lines stand on each other, each filled down to the one below it; the readout is their sum, and the legend tells each. */
  stacked?: boolean;
  /** Somebody points at a step; null: no longer. */
  onPoint(index: number | null): void;
}

/** What a chart draws: for each line as many values as its axis has points. */
export interface ChartData {
  lines: (readonly (number | null)[])[];
  axis: Axis;
  /** The readout where nobody points; without it, the last values. */
  resting?: string;
  /** The lines in words, where their last, least and greatest values are not what they are about. */
  told?: string;
}

/** A label below the chart. */
export interface Tick {
  share: number;
  anchor: "start" | "middle" | "end";
  words: string;
  /** Whether a line stands on it. */
  ruled?: boolean;
}

/** What runs from left to right. */
export interface Axis {
  /** How many points there are. */
  length: number;
  /** Where a point is, from 0 (left) to 1 (right). */
  share(index: number): number;
  /** The point there; null where there is none. */
  nearest(share: number): number | null;
  ticks: readonly Tick[];
  /** A point in words, in front of its values. */
  at(index: number): string;
  /** What the whole width stands for, in words. */
  range: string;
}

/** Time: `length` steps of `stepS` seconds, the newest at the right edge, on a width that stands for `span` of them. */
export function timeAxis(length: number, span: number, stepS: number, timeMs: (index: number) => number): Axis {
  const spanS = span * stepS;
  return {
    length,
    share: (index) => (index + span - length) / Math.max(1, span - 1),
    nearest: (share) => {
      const index = Math.round(share * (span - 1)) - (span - length);
      return index < 0 || index >= length ? null : index;
    },
    ticks: [
      { share: 0, anchor: "start", words: ago(spanS) }, { share: 0.5, anchor: "middle", words: ago(spanS / 2) },
      { share: 1, anchor: "end", words: "now" },
    ],
    at: (index) => new Date(timeMs(index)).toLocaleTimeString(),
    range: words(spanS),
  };
}

type Place = (value: number) => number;

export class Chart {
  readonly element: HTMLElement;
  private readonly readout = element("output", { class: "readout" });
  private readonly plot = svg("svg", { class: "plot", role: "img", tabindex: "0" });
  private readonly grid = svg("g", { class: "grid-lines" });
  private readonly curves = svg("g", {});
  private readonly mark = svg("g", { class: "mark" });
  private readonly keys: HTMLElement[] = [];
  private data: ChartData | null = null;
  private pointed: number | null = null;
  private width = 400;

  constructor(private readonly options: ChartOptions) {
    this.plot.append(this.grid, this.curves, this.mark);
    const legend = element("span", { class: options.stacked ? "legend many" : "legend" });
    if (options.lines.length > 1) {
      this.keys.push(...options.lines.map((line) => element("span", { class: `key ${line.className}` }, line.label)));
      legend.append(...this.keys);
    }
    this.element = element(
      "figure", { class: "chart" },
      element("figcaption", {}, element("span", { class: "chart-title" }, options.title), legend, this.readout),
      element("div", { class: "plot-place" }),
    );
    this.element.lastElementChild!.append(this.plot);
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry!.contentRect.width);
      if (width > 0 && width !== this.width) {
        this.width = width;
        this.draw();
      }
    }).observe(this.element.lastElementChild!);
    const point = (event: Event): void => options.onPoint(this.indexAt((event as PointerEvent).clientX));
    for (const kind of ["pointermove", "pointerdown"]) this.plot.addEventListener(kind, point);
    for (const kind of ["pointerleave", "blur"]) this.plot.addEventListener(kind, () => options.onPoint(null));
    this.plot.addEventListener("keydown", (event) => this.key(event as KeyboardEvent));
  }

  show(data: ChartData): void {
    this.data = data;
    this.draw();
  }

  /** Marks step `index`, and tells its values; null: the newest, without a mark. */
  point(index: number | null): void {
    this.pointed = index;
    this.drawMark();
  }

  private key(event: KeyboardEvent): void {
    const { data } = this;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (!data || data.axis.length === 0 || (step === undefined && event.key !== "Escape")) return;
    event.preventDefault();
    const last = data.axis.length - 1;
    const from = this.pointed ?? last;
    this.options.onPoint(step === undefined ? null : Math.min(last, Math.max(0, from + step)));
  }

  private indexAt(clientX: number): number | null {
    const { data } = this;
    if (!data || data.axis.length === 0) return null;
    const box = this.plot.getBoundingClientRect();
    return data.axis.nearest((clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT));
  }

  private x(share: number): number {
    return LEFT + share * (this.width - LEFT - RIGHT);
  }

  private top(data: ChartData): number {
    const lines = this.drawn(data);
    const most = Math.max(this.options.leastTop, ...lines.map((line) => greatest(line)));
    if (!this.options.cutsOutliers) return niceTop(most);
    return niceTop(Math.min(most, Math.max(this.options.leastTop, usualTop(lines.flat()))));
  }

  /** The lines as they are drawn. */
  private drawn(data: ChartData): ChartData["lines"] {
    return this.options.stacked ? stackOf(data.lines) : data.lines;
  }

  private y(data: ChartData): Place {
    const top = this.top(data);
    return (value) => TOP + (1 - Math.min(1, value / top)) * (HEIGHT - TOP - BOTTOM);
  }

  private draw(): void {
    const { data } = this;
    if (!data) return;
    this.plot.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.plot.setAttribute("aria-label", this.inWords(data));
    const y = this.y(data);
    this.drawGrid(data, y);
    const base = y(0);
    if (this.options.stacked) {
      const x: Place = (index) => this.x(data.axis.share(index));
      const sums = this.drawn(data);
      this.curves.replaceChildren(...this.options.lines.map((style, number) =>
        svg("path", { class: `band ${style.className}`, d: bandPath(sums[number]!, number > 0 ? sums[number - 1]! : null, x, y) })));
      this.drawMark();
      return;
    }
    this.curves.replaceChildren(
      ...this.options.lines.flatMap((style, number) => {
        const runs = runsOf(data.lines[number] ?? [], (index) => this.x(data.axis.share(index)), y);
        const line = svg("path", { class: `curve ${style.className}`, d: runs.map(runPath).join("") });
        if (!style.filled) return [line];
        const area = runs.map((run) => {
          const [left, right] = [run[0]!.split(",")[0], run[run.length - 1]!.split(",")[0]];
          return `M${left},${base.toFixed(1)}L${run.join("L")}L${right},${base.toFixed(1)}Z`;
        });
        return [svg("path", { class: `area ${style.className}`, d: area.join("") }), line];
      }),
    );
    this.drawMark();
  }

  private drawGrid(data: ChartData, y: Place): void {
    const top = this.top(data);
    const right = this.width - RIGHT;
    const steps = this.options.whole && top < 2 ? [0, top] : [0, top / 2, top];
    const rows = steps.flatMap((value) => {
      const at = y(value).toFixed(1);
      const label = svg("text", { x: String(LEFT - 7), y: String(Number(at) + 4), "text-anchor": "end" });
      label.textContent = value === 0 ? "0" : (this.options.onAxis?.(value, top) ?? this.options.format(value));
      return [svg("line", { x1: String(LEFT), x2: String(right), y1: at, y2: at }), label];
    });
    const columns = data.axis.ticks.flatMap(({ share, anchor, words, ruled }) => {
      const x = this.x(share).toFixed(1);
      const label = svg("text", { x, y: String(HEIGHT - 4), "text-anchor": anchor });
      label.textContent = words;
      return ruled ? [svg("line", { x1: x, x2: x, y1: String(TOP), y2: String(HEIGHT - BOTTOM) }), label] : [label];
    });
    this.grid.replaceChildren(...rows, ...columns, ...this.cutOff(data, top));
  }

  /** How far what is cut off reaches, where it is. */
  private cutOff(data: ChartData, top: number): SVGElement[] {
    return this.drawn(data).flatMap((line) => {
      const most = greatest(line);
      if (most <= top) return [];
      const share = data.axis.share(line.indexOf(most));
      const anchor = share > 0.8 ? "end" : share < 0.2 ? "start" : "middle";
      const label = svg("text", { x: this.x(share).toFixed(1), y: String(TOP + 10), "text-anchor": anchor, class: "cut-off" });
      label.textContent = `↑ ${this.options.format(most)}`;
      return [label];
    });
  }

  private drawMark(): void {
    const { data, pointed } = this;
    if (!data || data.axis.length === 0) {
      setText(this.readout, "–");
      this.mark.replaceChildren();
      return;
    }
    const { axis } = data;
    // At rest a stack tells its newest step that says something.
    const newest = this.options.stacked ? Math.max(0, ...this.drawn(data).map((line) => line.findLastIndex((value) => value !== null))) : axis.length - 1;
    const index = pointed !== null && pointed < axis.length ? pointed : newest;
    const values = this.options.lines.map((_, number) => data.lines[number]?.[index] ?? null);
    const told = (value: number | null): string => (value === null ? "–" : this.options.format(value));
    const words = this.options.stacked ? told(sumOf(values)) : values.map(told).join(" / ");
    if (this.options.stacked) this.options.lines.forEach(({ label }, number) => setText(this.keys[number]!, `${label} ${told(values[number]!)}`));
    setText(this.readout, pointed === null ? (data.resting ?? words) : `${axis.at(index)}  ${words}`);
    this.readout.classList.toggle("past", pointed !== null);
    if (pointed === null) {
      this.mark.replaceChildren();
      return;
    }
    const x = this.x(axis.share(index)).toFixed(1);
    const y = this.y(data);
    const heights = this.options.stacked ? [] : values;
    this.mark.replaceChildren(
      svg("line", { x1: x, x2: x, y1: String(TOP), y2: String(HEIGHT - BOTTOM) }),
      ...heights.flatMap((value, number) =>
        value === null ? [] : [svg("circle", { cx: x, cy: y(value).toFixed(1), r: "3.5", class: this.options.lines[number]!.className })]),
    );
  }

  private inWords(data: ChartData): string {
    const told = this.options.lines.map((style, number) => {
      const values = (data.lines[number] ?? []).filter((value) => value !== null);
      if (values.length === 0) return `${style.label}: nothing yet`;
      const { format } = this.options;
      const [least, most] = [values.reduce((a, b) => Math.min(a, b)), greatest(values)];
      return `${style.label}: now ${format(values[values.length - 1]!)}, between ${format(least)} and ${format(most)}`;
    });
    return `${this.options.title}, over ${data.axis.range}. ${data.told ?? told.join("; ")}. Arrow keys tell each value.`;
  }
}

function greatest(values: readonly (number | null)[]): number {
  return values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
}

/** What an axis shows where a few values are far above the others: twice what three of four of them reach. */
export function usualTop(values: readonly (number | null)[]): number {
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  const usual = sorted[Math.floor((sorted.length - 1) * 0.75)];
  const greatestOf = sorted.at(-1);
  if (usual === undefined || greatestOf === undefined) return 0;
  return greatestOf > 4 * usual ? 2 * usual : greatestOf;
}

function sumOf(values: readonly (number | null)[]): number | null {
  return values.every((value) => value === null) ? null : values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
}

/** Lines that stand on each other: at each step the sum of a line and those below it; null where none of all is known. */
export function stackOf(lines: readonly (readonly (number | null)[])[]): (number | null)[][] {
  const steps = lines.reduce((most, line) => Math.max(most, line.length), 0);
  const at = (step: number, upTo: number): number | null =>
    lines.every((line) => (line[step] ?? null) === null) ? null : (sumOf(lines.slice(0, upTo + 1).map((line) => line[step] ?? null)) ?? 0);
  return lines.map((_, number) => Array.from({ length: steps }, (_, step) => at(step, number)));
}

/** The room between a line and the one below it, or zero, without their gaps. A lone step is a thin band. */
function bandPath(upper: readonly (number | null)[], lower: readonly (number | null)[] | null, x: Place, y: Place): string {
  const floor = upper.map((value, step) => (value === null ? null : (lower?.[step] ?? 0)));
  const below = runsOf(floor, x, y);
  return runsOf(upper, x, y).map((run, number) => {
    const back = [...below[number]!].reverse();
    return run.length === 1 ? `M${run[0]}h1.5V${back[0]!.split(",")[1]}h-1.5Z` : `M${run.join("L")}L${back.join("L")}Z`;
  }).join("");
}

function words(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

function ago(seconds: number): string {
  return `−${words(seconds)}`;
}

/** The next round number at or above `most`; its half is one too. */
export function niceTop(most: number): number {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * power >= most * (1 - 1e-9));
  return (step ?? 10) * power;
}

/** A run as a path; a lone point as a dot. */
export function runPath(run: readonly string[]): string {
  return run.length === 1 ? `M${run[0]}h0` : `M${run.join("L")}`;
}

/** The points "x,y" of values that follow each other without a gap, run by run. */
export function runsOf(values: readonly (number | null)[], x: Place, y: Place): string[][] {
  const runs: string[][] = [];
  let run: string[] = [];
  values.forEach((value, index) => {
    if (value === null) {
      run = [];
      return;
    }
    if (run.length === 0) runs.push(run);
    run.push(`${x(index).toFixed(1)},${y(value).toFixed(1)}`);
  });
  return runs;
}
