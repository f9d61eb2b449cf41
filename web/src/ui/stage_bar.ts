/** Where the milliseconds go, opened from the delay in the control bar: a bar of the stages, the same as a table, and what would help. */
import type { StageSummary } from "../stages/ledger";
import type { Telling } from "../stages/exchange";
import { PARTS, type Part } from "../stages/parts";
import { element, setText } from "./dom";
import { type PlayedBy, PART_WORDS, type StageRow, fine, viewOf } from "./stage_words";

/** A label of a segment takes so much room, and so much more for each letter, in px. */
const LABEL_PX = 14;
const LETTER_PX = 7.5;

const TELLING_WORDS: Record<Telling, string> = {
  off: "", on: "", refused: "This server takes no such figures.", slowed: "The server is busy: it is told less often.",
};

export interface StageBarOptions {
  /** The button that opens it. */
  button: HTMLButtonElement;
  /** Whether the viewer agrees that the server is told these figures. */
  reports: boolean;
  opened(isOpen: boolean): void;
  agreed(agrees: boolean): void;
}

interface Row {
  row: HTMLTableRowElement;
  text: HTMLElement;
  largest: HTMLElement;
  p50: HTMLElement;
  p99: HTMLElement;
  segment: HTMLElement;
  label: HTMLElement;
}

export class StageBar {
  readonly element: HTMLElement;
  private readonly total = element("p", { class: "budget-total" });
  private readonly bar = element("div", { class: "budget-bar", "aria-hidden": "true" });
  private readonly advice = element("p", { class: "budget-advice" });
  private readonly notes = element("p", { class: "hint" });
  private readonly sum = { p50: element("td", { class: "number" }), p99: element("td", { class: "number" }) };
  private readonly agree = element("input", { type: "checkbox" });
  private readonly telling = element("span", { class: "hint", role: "status" });
  private readonly rows: Record<Part, Row>;
  private width = 0;
  private rowsShown: readonly StageRow[] = [];

  constructor(private readonly options: StageBarOptions) {
    const { button } = options;
    this.rows = Object.fromEntries(PARTS.map((part) => [part, makeRow(part)])) as Record<Part, Row>;
    this.bar.append(...PARTS.map((part) => this.rows[part].segment));
    const head = (words: string, title: string): HTMLElement => element("th", { scope: "col", class: "number", title }, words);
    const table = element(
      "table", { class: "budget-table" },
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Stage"),
        head("p50", "Half of the pictures took no longer"), head("p99", "99 of 100 pictures took no longer"))),
      element("tbody", {}, ...PARTS.map((part) => this.rows[part].row),
        element("tr", { class: "budget-sum" }, element("th", { scope: "row" }, "From capture to here"), this.sum.p50, this.sum.p99)),
    );
    const close = element("button", { type: "button", class: "action", onclick: () => this.toggle(false) }, "Close");
    this.agree.checked = options.reports;
    this.agree.addEventListener("change", () => options.agreed(this.agree.checked));
    this.element = element(
      "section", { class: "panel budget", id: "budget", "aria-label": "Where the milliseconds go", hidden: true },
      element("header", {}, element("h2", {}, "Where the milliseconds go"), this.total, close),
      this.bar, this.advice, table, this.notes,
      element("div", { class: "budget-report" },
        element("label", {}, this.agree, " Tell the server these figures, once in 10 s, without anything about you"), this.telling),
    );
    button.setAttribute("aria-expanded", "false");
    button.setAttribute("aria-controls", "budget");
    button.addEventListener("click", () => this.toggle(this.element.hidden));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented && !this.element.hidden) this.toggle(false);
    });
    // Over the picture two clicks would be for full screen.
    this.element.addEventListener("dblclick", (event) => event.stopPropagation());
    new ResizeObserver(([entry]) => {
      this.width = entry!.contentRect.width;
      if (this.isOpen) this.showRows(this.rowsShown);
    }).observe(this.bar);
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  toggle(open: boolean): void {
    if (open === this.isOpen) return;
    const hadFocus = this.element.contains(document.activeElement);
    this.element.hidden = !open;
    this.options.button.setAttribute("aria-expanded", String(open));
    this.width = this.bar.clientWidth;
    this.options.opened(open);
    // A bar that goes must not take the keyboard's place in the page with it.
    if (hadFocus) this.options.button.focus();
  }

  /** Brings the bar into view where it is not: the rest may be scrolled to. */
  reveal(): void {
    for (const part of [this.advice, this.bar, this.total]) part.scrollIntoView({ block: "nearest" });
  }

  show(summary: StageSummary, by: PlayedBy, telling: Telling): void {
    const view = viewOf(summary, by);
    const uncertainty = summary.clockMs === null ? "" : ` ± ${fine(summary.clockMs)}`;
    setText(this.total, view.total ? `${fine(view.total.p50)}${uncertainty} from capture to here` : "From capture to here: not known");
    if (this.advice.textContent !== view.advice) this.advice.replaceChildren(...withCode(view.advice));
    this.advice.hidden = view.advice === "";
    setText(this.notes, view.notes.join(" "));
    setText(this.sum.p50, view.total ? fine(view.total.p50) : "–");
    setText(this.sum.p99, view.total ? fine(view.total.p99) : "–");
    setText(this.telling, TELLING_WORDS[telling]);
    this.rowsShown = view.rows;
    this.showRows(view.rows);
  }

  private showRows(rows: readonly StageRow[]): void {
    const all = rows.reduce((sum, row) => sum + (row.p50 ?? 0), 0);
    this.bar.classList.toggle("empty-bar", all === 0);
    for (const { part, label, p50, p99, text, isLargest } of rows) {
      const row = this.rows[part];
      setText(row.text, text);
      setText(row.p50, p50 === null ? "–" : fine(p50));
      setText(row.p99, p99 === null ? "–" : fine(p99));
      row.row.classList.toggle("unknown", p50 === null);
      // Most encoders have no look-ahead, and few streams come by a transport that holds them back.
      row.row.hidden = (part === "look_ahead" || part === "hold") && p50 === null;
      row.largest.hidden = !isLargest;
      const share = all > 0 ? (p50 ?? 0) / all : 0;
      row.segment.hidden = share === 0;
      row.segment.style.flexGrow = String(share);
      row.segment.classList.toggle("largest", isLargest);
      const words = `${label} ${fine(p50 ?? 0)}`;
      const room = share * this.width;
      setText(row.label, room >= LABEL_PX + LETTER_PX * words.length ? words : room >= LABEL_PX + LETTER_PX * label.length ? label : "");
    }
  }
}

/** A sentence with its options as code, which is not broken in two. */
function withCode(sentence: string): (Node | string)[] {
  const pieces = sentence.split(/(--[a-z-]+(?: ultrafast| \d+)?|flush = "frame"|pacing = "off"|\?engine=[a-z]+)/);
  return pieces.map((piece, at) => (at % 2 === 1 ? element("code", {}, piece) : piece));
}

function makeRow(part: Part): Row {
  const text = element("span", { class: "budget-text" });
  const largest = element("span", { class: "badge", hidden: true }, "largest");
  const [p50, p99] = [element("td", { class: "number" }), element("td", { class: "number" })];
  const name = element("span", { class: `budget-name part-${part}` }, PART_WORDS[part].label, largest);
  const row = element("tr", {}, element("th", { scope: "row" }, element("div", { class: "budget-stage" }, name, " ", text)), p50, p99);
  const label = element("span", {});
  const segment = element("span", { class: `budget-part part-${part}`, hidden: true }, label);
  return { row, text, largest, p50, p99, segment, label };
}
