/** Words for how viewers get on. */
import type { Behind, Why } from "../api";
import { element, setText } from "./dom";

export const WHY_WORDS: Record<Why, { label: string; meaning: string }> = {
  fine: { label: "fine", meaning: "Less than 200 ms behind live" },
  receiver_window: { label: "slow reader", meaning: "Its device or program does not read as fast as the stream comes (its receive window is full)" },
  network: { label: "network", meaning: "Packets are lost, or the path carries no more" },
  paced: { label: "paced", meaning: "It gets all that the pacing rate allows, and is catching up" },
  us: { label: "this server", meaning: "There was room and this server did not send: it is too busy" },
};

export function whyBadge(why: Why): HTMLElement {
  const words = WHY_WORDS[why] ?? { label: why, meaning: "" };
  return element("span", { class: `why why-${why}`, title: words.meaning }, words.label);
}

/** The ranges between the edges, in words: "0–50 ms", "1–2 s", "> 5 s". */
export function rangeWords(edgesMs: readonly number[]): string[] {
  return [...edgesMs, Infinity].map((edge, index) => {
    const from = index === 0 ? 0 : edgesMs[index - 1]!;
    if (edge === Infinity) return `> ${from / 1000} s`;
    if (from >= 1000) return `${from / 1000}–${edge / 1000} s`;
    if (edge >= 1000) return `${from} ms–${edge / 1000} s`;
    return `${from}–${edge} ms`;
  });
}

/** Viewers by how far they are behind live, as bars that carry their numbers. */
export class BehindBars {
  readonly element = element("ol", { class: "bars", "aria-label": "Viewers by how far they are behind live" });
  private bars: { bar: HTMLElement; count: HTMLElement }[] = [];
  private edges = "";

  show(behind: Behind): void {
    if (this.edges !== behind.edges_ms.join()) {
      this.edges = behind.edges_ms.join();
      this.bars = rangeWords(behind.edges_ms).map((range, index) => {
        // From 200 ms on a viewer counts as slow.
        const slow = (index === 0 ? 0 : behind.edges_ms[index - 1]!) >= 200;
        const bar = element("span", { class: slow ? "bar slow" : "bar" });
        const count = element("span", { class: "bar-count" });
        this.element.append(
          element("li", {}, element("span", { class: "bar-range" }, range), element("span", { class: "bar-place" }, bar), count));
        return { bar, count };
      });
    }
    const most = Math.max(1, ...behind.viewers);
    this.bars.forEach(({ bar, count }, index) => {
      const viewers = behind.viewers[index] ?? 0;
      bar.style.width = `${(viewers / most) * 100}%`;
      setText(count, String(viewers));
      count.classList.toggle("none", viewers === 0);
    });
  }
}
