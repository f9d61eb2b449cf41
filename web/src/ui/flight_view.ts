/** Packet flight in the page: how bursty the stream arrives here. */
import { livePath, type Mux } from "../api";
import { type Bin, type Distribution, type Summary, summarize } from "../flight/flight";
import { DURATION_MS, Receiver } from "../flight/receiver";
import { bits, bytes, seconds } from "../flight/units";
import { niceTop } from "./chart";
import { element, setText, svg } from "./dom";

/** Browsers tell the time to 0.1 ms at best, some to 1 ms: closer reads cannot be told apart. */
const BURST_GAP_MS = 1;
const REFRESH_MS = 500;

/** Where a drawing's axes are, in the page's pixels. */
interface Frame {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}
const MARGINS = { right: 8, top: 8, bottom: 22 };
/** Below this width every other tick has to do. */
const NARROW = 420;

export class FlightView {
  private readonly start = element("button", { type: "button", class: "action", onclick: () => void this.toggle() }, `Look for ${DURATION_MS / 1000} s`);
  private readonly verdict = element("p", { class: "verdict", role: "status" });
  private readonly drawings = element("div", { class: "flight-drawings", hidden: true });
  private receiver: Receiver | null = null;
  private summary: Summary | null = null;
  private width = 0;
  readonly element: HTMLElement;

  constructor(private readonly name: string, private readonly mux: () => Mux) {
    this.element = element(
      "section", { class: "panel flight", "aria-label": "Packet flight" },
      element("header", {}, element("h2", {}, "Packet flight"), this.start),
      element("p", { class: "hint" },
        "How bursty the stream arrives at this browser, as one more viewer. A browser sees reads, not packets: what comes close " +
        "together is one read, and this page's own work may delay it. For the wire itself: tcpdump, then glassline probe CAPTURE --flight."),
      this.verdict, this.drawings,
    );
    new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (width === this.width) return;
      this.width = width;
      this.draw();
    }).observe(this.element);
    window.addEventListener("pagehide", () => this.receiver?.stop());
  }

  private async toggle(): Promise<void> {
    if (this.receiver) {
      this.receiver.stop();
      return;
    }
    const receiver = new Receiver();
    this.receiver = receiver;
    setText(this.start, "Stop");
    setText(this.verdict, "Listening…");
    const timer = window.setInterval(() => this.show(receiver), REFRESH_MS);
    const trouble = await receiver.run(livePath(this.name, location.search, this.mux()));
    window.clearInterval(timer);
    this.receiver = null;
    setText(this.start, "Look again");
    if (trouble === null || receiver.arrivals.length > 0) this.show(receiver);
    if (trouble !== null) setText(this.verdict, trouble);
  }

  private show({ arrivals }: Receiver): void {
    if (arrivals.length < 2) return;
    this.summary = summarize(arrivals, BURST_GAP_MS);
    setText(this.verdict, this.summary.verdict);
    this.draw();
  }

  private draw(): void {
    const { summary } = this;
    if (!summary || this.width === 0) return;
    this.drawings.hidden = false;
    const half = getComputedStyle(this.drawings).gridTemplateColumns.split(" ").length > 1 ? (this.width - 26) / 2 : this.width;
    const wide: Frame = { ...MARGINS, width: this.width, height: 200, left: 64 };
    const narrow: Frame = { ...MARGINS, width: Math.floor(half), height: 160, left: 44 };
    this.drawings.replaceChildren(
      figure("When the bytes arrive", "Half a second around the fullest millisecond. Each bar is one millisecond, the orange line the mean of 10 ms, the green one of 100 ms.", arrivalsDrawing(summary, wide), "wide"),
      figure("How large the bursts are", `Share of all bytes, by the size of their burst: reads less than ${BURST_GAP_MS} ms apart.`, binsDrawing(summary.burstBins, [[100, "100 B"], [1e3, "1 kB"], [1e4, "10 kB"], [1e5, "100 kB"], [1e6, "1 MB"], [1e7, "10 MB"]], "Bytes by burst size", narrow), "half"),
      figure("How long it is quiet in between", "Share of the quiet time, by the length of the gap.", binsDrawing(summary.gapBins, [[0.01, "10 µs"], [0.1, "0.1 ms"], [1, "1 ms"], [10, "10 ms"], [100, "0.1 s"], [1e3, "1 s"], [1e4, "10 s"]], "Quiet time by length of gap", narrow), "half"),
      figuresTable(summary),
    );
  }
}

function figure(title: string, words: string, drawing: SVGElement, className: string): HTMLElement {
  return element("figure", { class: `flight-figure ${className}` },
    element("figcaption", {}, element("span", { class: "chart-title" }, title), element("span", { class: "hint" }, words)), drawing);
}

function frame({ width, height }: Frame, label: string): SVGElement {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": label });
}

function text(x: number, y: number, anchor: string, words: string): SVGElement {
  const node = svg("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor });
  node.textContent = words;
  return node;
}

function axisLine(at: Frame, y: number): SVGElement {
  return svg("line", { x1: String(at.left), x2: String(at.width - at.right), y1: y.toFixed(1), y2: y.toFixed(1) });
}

function arrivalsDrawing(summary: Summary, at: Frame): SVGElement {
  const { detail } = summary;
  const top = niceTop(Math.max(...detail) * 8000);
  const inner = at.width - at.left - at.right;
  const x = (ms: number): number => at.left + (ms / detail.length) * inner;
  const y = (bps: number): number => at.top + (1 - bps / top) * (at.height - at.top - at.bottom);
  const drawing = frame(at, `Bytes in each millisecond, as a rate of up to ${bits(top)}. ${summary.verdict}`);
  const grid = svg("g", { class: "grid-lines" });
  for (const value of [0, top / 2, top]) grid.append(axisLine(at, y(value)), text(at.left - 7, y(value) + 4, "end", value === 0 ? "0" : bits(value)));
  for (const ms of [0, 100, 200, 300, 400, 500].filter((ms) => at.width >= NARROW || ms % 500 === 0 || ms === 200)) {
    grid.append(text(x(ms), at.height - 5, ms === 500 ? "end" : ms === 0 ? "start" : "middle", ms === 500 ? "500 ms" : String(ms)));
  }
  const bars = detail.flatMap((sum, ms) => (sum === 0 ? [] : [`M${x(ms + 0.5).toFixed(1)},${y(0).toFixed(1)}V${y(sum * 8000).toFixed(1)}`]));
  const mean = (ms: number, className: string): SVGElement => {
    const steps: string[] = [];
    for (let from = 0; from < detail.length; from += ms) {
      const sum = detail.slice(from, from + ms).reduce((a, b) => a + b, 0);
      const height = y((sum * 8000) / ms).toFixed(1);
      steps.push(`${x(from).toFixed(1)},${height}L${x(from + ms).toFixed(1)},${height}`);
    }
    return svg("path", { class: `curve ${className}`, d: `M${steps.join("L")}` });
  };
  drawing.append(grid, svg("path", { class: "flight-bars", d: bars.join(""), "stroke-width": Math.max(1, (inner / detail.length) * 0.8).toFixed(2) }), mean(10, "line-c"), mean(100, "line-b"));
  return drawing;
}

function binsDrawing(bins: readonly Bin[], ticks: readonly [number, string][], label: string, at: Frame): SVGElement {
  const most = Math.max(...bins.map(({ share }) => share));
  const top = Math.min(1, niceTop(most));
  const inner = at.width - at.left - at.right;
  const [low, high] = [Math.log10(bins[0]!.from), Math.log10(bins[bins.length - 1]!.to)];
  const x = (value: number): number => at.left + ((Math.log10(value) - low) / (high - low)) * inner;
  const y = (share: number): number => at.top + (1 - share / top) * (at.height - at.top - at.bottom);
  const fullest = bins.find(({ share }) => share === most);
  const drawing = frame(at, `${label}: most, ${Math.round(most * 100)} %, from ${ticksWords(fullest?.from ?? 0, label)} on`);
  const grid = svg("g", { class: "grid-lines" });
  for (const share of [0, top / 2, top]) {
    grid.append(axisLine(at, y(share)), text(at.left - 6, y(share) + 4, "end", `${Math.round(share * 100)} %`));
  }
  ticks.forEach(([value, words], index) => {
    if (at.width < NARROW && index % 2 === 1) return;
    grid.append(text(x(value), at.height - 5, index === ticks.length - 1 ? "end" : index === 0 ? "start" : "middle", words));
  });
  const bars = bins.filter(({ share }) => share > 0).map(({ from, to, share }) =>
    svg("rect", {
      x: (x(from) + 0.4).toFixed(1), width: Math.max(1, x(to) - x(from) - 0.8).toFixed(1),
      y: y(share).toFixed(1), height: Math.max(0.5, y(0) - y(share)).toFixed(1), class: "flight-bin",
    }));
  drawing.append(grid, ...bars);
  return drawing;
}

function ticksWords(from: number, label: string): string {
  return label.startsWith("Bytes") ? bytes(from) : seconds(from / 1000);
}

function figuresTable(summary: Summary): HTMLElement {
  const row = (name: string, all: Distribution | null, unit: (value: number) => string): HTMLElement =>
    element("tr", {}, element("th", { scope: "row" }, name), ...[all?.p50, all?.p99, all?.max].map((value) =>
      element("td", { class: "number" }, value === undefined ? "–" : unit(value))));
  const head = ["", "p50", "p99", "max"].map((words) => element("th", { scope: "col", class: "number" }, words));
  return element(
    "div", { class: "table-place flight-table" },
    element("table", {},
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {},
        ...summary.windows.map(({ ms, rate }) => row(`Rate in each ${ms} ms`, rate, bits)),
        row("Burst", summary.burstBytes, bytes),
        row("Gap between bursts", summary.gapMs, (ms) => seconds(ms / 1000)))),
    element("p", { class: "hint" },
      `${bytes(summary.bytes)} in ${summary.arrivals.toLocaleString("en")} reads within ${seconds(summary.durationMs / 1000)}` +
      `${summary.rateBps === null ? "" : `, ${bits(summary.rateBps)} in the mean`}. The first half second is left out.`),
  );
}
