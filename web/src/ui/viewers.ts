/** The table of a stream's viewers. */
import type { Client, Why } from "../api";
import { append, element, setText } from "./dom";
import { age, bitrate, duration } from "./format";
import { WHY_WORDS, whyBadge } from "./why";

interface Column {
  label: string;
  meaning: string;
  text(client: Client): string;
  /** What it is sorted by; strings in their order, numbers by size, null last. */
  value(client: Client): number | string | null;
  className?: string;
}

const WHY_ORDER: Why[] = ["us", "network", "receiver_window", "paced", "fine"];

export const COLUMNS: readonly Column[] = [
  { label: "Address", meaning: "From where it watches", text: (c) => c.address, value: (c) => c.address, className: "address" },
  { label: "Behind", meaning: "Age of the oldest byte that has not left for it", text: (c) => age(c.behind_ms), value: (c) => c.behind_ms },
  { label: "Why", meaning: "What keeps it from being live", text: (c) => WHY_WORDS[c.why]?.label ?? c.why, value: (c) => -WHY_ORDER.indexOf(c.why), className: "why-cell" },
  { label: "Rate", meaning: "Over the last second", text: (c) => (c.rate_bps === null ? "–" : bitrate(c.rate_bps)), value: (c) => c.rate_bps },
  { label: "RTT", meaning: "Round-trip time, smoothed", text: (c) => rtt(c.tcp.rtt_ms), value: (c) => c.tcp.rtt_ms },
  { label: "cwnd", meaning: "Congestion window: segments that may be on their way", text: (c) => String(c.tcp.cwnd), value: (c) => c.tcp.cwnd },
  { label: "Sent again", meaning: "TCP segments, since it joined", text: (c) => String(c.tcp.retransmitted_segments), value: (c) => c.tcp.retransmitted_segments },
  { label: "Moved", meaning: "Times that it fell behind the backlog and was moved to a key frame", text: (c) => String(c.moved_forward), value: (c) => c.moved_forward },
  { label: "Paced at", meaning: "The rate that its connection may send at; – while it is not", text: (c) => (c.pacing_bps === null ? "–" : bitrate(c.pacing_bps)), value: (c) => c.pacing_bps },
  { label: "For", meaning: "Since it joined", text: (c) => duration(c.joined_s), value: (c) => c.joined_s },
];

function rtt(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

/** `clients` by a column. What has no value comes last in either direction; equal ones stay in their order. */
export function sorted(clients: readonly Client[], column: number, descending: boolean): Client[] {
  const { value } = COLUMNS[column]!;
  return [...clients].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    const order = typeof x === "string" ? x.localeCompare(String(y), undefined, { numeric: true }) : x - Number(y);
    return descending ? -order : order;
  });
}

export class ViewersTable {
  private column = 1;
  private descending = true;
  private clients: readonly Client[] = [];
  private readonly heads: HTMLElement[];
  private readonly body = element("tbody");
  private readonly rows: { row: HTMLElement; cells: HTMLElement[] }[] = [];
  readonly element: HTMLElement;

  constructor() {
    this.heads = COLUMNS.map((column, index) => {
      const button = element("button", { type: "button", title: column.meaning, onclick: () => this.sortBy(index) }, column.label);
      return element("th", { scope: "col", class: column.className ?? "number" }, button);
    });
    this.element = element(
      "div", { class: "table-place", tabindex: "0", role: "region", "aria-label": "Viewers, one by one" },
      element("table", {}, element("thead", {}, element("tr", {}, ...this.heads)), this.body),
    );
    this.showOrder();
  }

  show(clients: readonly Client[]): void {
    this.clients = clients;
    const list = sorted(clients, this.column, this.descending);
    while (this.rows.length > list.length) this.rows.pop()!.row.remove();
    while (this.rows.length < list.length) {
      const cells = COLUMNS.map((column) => element("td", { class: column.className ?? "number" }));
      const row = element("tr", {}, ...cells);
      this.rows.push({ row, cells });
      this.body.append(row);
    }
    list.forEach((client, number) => {
      const { cells } = this.rows[number]!;
      COLUMNS.forEach((column, index) => {
        const cell = cells[index]!;
        const text = column.text(client);
        if (column.className !== "why-cell") setText(cell, text);
        else if (cell.textContent !== text) {
          cell.replaceChildren();
          append(cell, [whyBadge(client.why)]);
        }
      });
    });
  }

  private sortBy(index: number): void {
    // Numbers are looked at from the greatest on, addresses from the first.
    this.descending = index === this.column ? !this.descending : index !== 0;
    this.column = index;
    this.showOrder();
    this.show(this.clients);
  }

  private showOrder(): void {
    this.heads.forEach((head, index) => {
      if (index === this.column) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }
}
