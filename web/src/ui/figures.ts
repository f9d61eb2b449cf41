/** Below the picture: how to watch, and how it goes, in numbers and as a curve of the delay. */
import type { PlayerStats } from "../player/playing";
import { type Choice, DELAYS_S, type Way } from "../player/way";
import { Chart, timeAxis } from "./chart";
import { element, setText } from "./dom";
import { bitrate, delayOnAxis, delayed } from "./format";

export const WAYS: Record<Way, { label: string; title: string }> = {
  direct: { label: "Direct", title: "Glassline's own player on the stream itself, with the least delay and no going back" },
  hls: { label: "LL-HLS", title: "Low-Latency HLS, by hls.js or by the browser itself. You can go back in it" },
  dash: { label: "LL-DASH", title: "Low-Latency DASH, by dash.js. You can go back in it" },
};

/** The curve goes back a minute. */
const CURVE_S = 60;
const STEP_S = 0.5;
const STEPS = CURVE_S / STEP_S;

/** Where the number comes from, for the delay's tooltip. */
export const DELAY_SOURCES = {
  stream: "by the capture time in the stream",
  picture: "read from the barcode in the picture",
  playlist: "by the playlist's date and time",
} as const;

export class Figures {
  private readonly choices: Record<Way, HTMLButtonElement>;
  private readonly target = element("select", { class: "target", "aria-label": "Wanted delay" });
  private readonly targetLine = element("label", { class: "target-line" }, "Wanted delay ", this.target);
  private readonly explained = element("p", { class: "hint" });
  private readonly values: Record<string, HTMLElement> = {};
  private readonly chart: Chart;
  private readonly delays: (number | null)[] = [];
  private pushedMs = 0;
  readonly element: HTMLElement;

  constructor(private choice: Choice, chosen: (choice: Choice) => void) {
    const button = (way: Way): HTMLButtonElement => {
      const node = element("button", { type: "button", class: "choice", title: WAYS[way].title }, WAYS[way].label);
      node.addEventListener("click", () => chosen({ ...this.choice, way, engine: way === "direct" ? this.choice.engine : null }));
      return node;
    };
    this.choices = { direct: button("direct"), hls: button("hls"), dash: button("dash") };
    this.target.append(element("option", { value: "" }, "As the playlist says"));
    const offered = new Set<number>(DELAYS_S);
    if (choice.delayS !== null) offered.add(choice.delayS);
    for (const delay of [...offered].sort((a, b) => a - b)) {
      this.target.append(element("option", { value: String(delay) }, `${delay} s behind live`));
    }
    this.target.addEventListener("change", () => {
      chosen({ ...this.choice, delayS: this.target.value === "" ? null : Number(this.target.value) });
    });
    this.chart = new Chart({
      title: "Delay over the last minute",
      lines: [{ label: "Delay", className: "line-a", filled: true }],
      format: delayed,
      onAxis: delayOnAxis,
      leastTop: 100,
      cutsOutliers: true,
      onPoint: (index) => this.chart.point(index),
    });
    const tiles = ["Delay", "Buffer", "Picture", "Bit rate", "Dropped pictures", "Stalls"].map((term) => {
      const value = (this.values[term] = element("dd", {}, "–"));
      return element("div", {}, element("dt", {}, term), value);
    });
    this.element = element(
      "section", { class: "panel how", "aria-label": "How to watch" },
      element(
        "header", {}, element("h2", {}, "How to watch"),
        element("div", { class: "choices", role: "group", "aria-label": "How to watch" }, ...Object.values(this.choices)),
        this.targetLine,
      ),
      this.explained,
      element("dl", { class: "tiles" }, ...tiles),
      this.chart.element,
    );
    this.chosen(choice);
  }

  /** Another choice is in force. */
  chosen(choice: Choice): void {
    this.choice = choice;
    for (const [way, button] of Object.entries(this.choices)) button.setAttribute("aria-pressed", String(way === choice.way));
    this.targetLine.hidden = choice.way === "direct";
    this.target.value = choice.delayS === null ? "" : String(choice.delayS);
    setText(this.explained, `${WAYS[choice.way].title}.`);
    this.delays.length = 0;
  }

  show(stats: PlayerStats): void {
    const { delayMs: delay } = stats;
    const values: Record<string, string> = {
      Delay: delay ? delayed(delay.p50) : "–",
      Buffer: stats.bufferMs === null ? "–" : delayed(stats.bufferMs),
      Picture: stats.width ? `${stats.width}×${stats.height}` : "–",
      "Bit rate": stats.bitrateBps === null ? "–" : bitrate(stats.bitrateBps),
      "Dropped pictures": String(stats.framesDropped),
      Stalls: String(stats.stalls),
    };
    for (const [term, value] of Object.entries(values)) setText(this.values[term]!, value);
    this.values["Delay"]!.title = delay
      ? `From capture to this screen, ${DELAY_SOURCES[delay.source]} (median of the last second)`
      : "Nothing says when the picture was captured";
    const nowMs = performance.now();
    if (nowMs - this.pushedMs < STEP_S * 1000) return;
    this.pushedMs = nowMs;
    this.delays.push(delay?.p50 ?? null);
    if (this.delays.length > STEPS) this.delays.shift();
    const { length } = this.delays;
    const now = Date.now();
    this.chart.show({
      lines: [this.delays],
      axis: timeAxis(length, STEPS, STEP_S, (index) => now - (length - 1 - index) * STEP_S * 1000),
    });
  }
}
