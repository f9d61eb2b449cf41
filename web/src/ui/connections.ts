/** The panel of a stream's page about how the stream comes in and leaves beside HTTP: its source, peers of SRT, RTMP and RTSP, outputs, forwards. */
import type { Peer, StreamInfo } from "../api";
import { element, setText } from "./dom";
import { bytes, duration } from "./format";

/** A connection, in words. */
export interface Connection {
  /** What it does, by which protocol: "Publishes by SRT". */
  title: string;
  /** Where it comes from or goes to. */
  place: string;
  state: string;
  /** Whether nothing passes though it should. */
  troubled: boolean;
  figures: [string, string][];
}

const ROLES: Record<string, string> = { publish: "Publishes", watch: "Watches", forward: "Forwarded" };

/** Whole numbers as they are, others with one digit. */
function number(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: Number.isInteger(value) || value >= 100 ? 0 : 1 });
}

/** How long until the next attempt, as the end of a sentence. */
function again(seconds: number | null | undefined): string {
  return seconds === null || seconds === undefined ? "" : `, again in ${duration(Math.ceil(seconds))}`;
}

function ofPeer(peer: Peer): Connection {
  const protocol = peer.protocol.toUpperCase();
  const figures = peer.figures.map(({ words, value }): [string, string] => [words, number(value)]);
  const transferred: [string, string] = ["Bytes", bytes(peer.bytes)];
  if (peer.role !== "forward") {
    return {
      title: `${ROLES[peer.role] ?? peer.role} by ${protocol}`, place: peer.address ?? "", state: `for ${duration(peer.seconds)}`, troubled: false,
      figures: [transferred, ...figures],
    };
  }
  const reason = peer.reason ? `: ${peer.reason}` : "";
  const isOn = peer.state === "publishing";
  return {
    title: `Forwarded by ${protocol}`, place: peer.target ?? "",
    state: isOn ? `publishing for ${duration(peer.seconds)}` : `${peer.state ?? ""}${reason}${again(peer.retry_in_s)}`,
    troubled: peer.state === "waiting" || peer.state === "refused",
    figures: [transferred, ...figures],
  };
}

/** All connections of `stream` that the server tells of: source, peers, outputs. Other callers than operators are told of none. */
export function connectionsOf({ source, peers, outputs }: Pick<StreamInfo, "source" | "peers" | "outputs">): Connection[] {
  const found: Connection[] = [];
  if (source) {
    const { rtp } = source;
    const figures: [string, string][] = [
      ["Reconnects", number(source.reconnects)], ["Failures", number(source.failures)],
      ...(source.datagrams === null ? [] : [["Datagrams", number(source.datagrams)] as [string, string]]),
      ...(rtp ? ([["RTP packets", number(rtp.received)], ["Lost", number(rtp.lost)]] as [string, string][]) : []),
    ];
    found.push({
      title: "Pulled from", place: source.url, troubled: source.state !== "live",
      state: `${source.state}${source.error ? `: ${source.error}` : ""}${again(source.retry_in_ms === null ? null : source.retry_in_ms / 1000)}`, figures,
    });
  }
  found.push(...(peers ?? []).map(ofPeer));
  for (const output of outputs ?? []) {
    found.push({
      title: "Sent to", place: output.url, troubled: output.error !== null,
      state: output.error ?? (output.sending ? "sending" : "waits for the stream"),
      figures: [
        ["Datagrams", number(output.datagrams)], ["Bytes", bytes(output.bytes)], ["Errors", number(output.errors)],
        ["Skipped to live", number(output.moved_forward)],
      ],
    });
  }
  return found;
}

/** Rows beyond these would make a page that cannot be read. */
const SHOWN_MAX = 40;

interface Row {
  row: HTMLElement;
  title: HTMLElement;
  place: HTMLElement;
  state: HTMLElement;
  list: HTMLElement;
  /** Of what the figures are that the list has places for. */
  names: string;
  values: HTMLElement[];
}

export class ConnectionsPanel {
  private readonly list = element("div", { class: "connections" });
  private readonly rows: Row[] = [];
  private readonly more = element("p", { class: "hint", hidden: true });
  readonly element = element(
    "section", { class: "panel", "aria-label": "Connections", hidden: true }, element("header", {}, element("h2", {}, "Connections"),
      element("p", { class: "hint" }, "By other protocols than HTTP: where the stream comes from and goes to")), this.list, this.more);

  show(stream: Pick<StreamInfo, "source" | "peers" | "outputs">): void {
    const all = connectionsOf(stream);
    // What is in trouble is seen first.
    const found = [...all.filter((one) => one.troubled), ...all.filter((one) => !one.troubled)].slice(0, SHOWN_MAX);
    this.element.hidden = all.length === 0;
    this.more.hidden = all.length <= SHOWN_MAX;
    setText(this.more, `${SHOWN_MAX} of ${all.length} are shown; all are in /api/streams.`);
    while (this.rows.length > found.length) this.rows.pop()!.row.remove();
    while (this.rows.length < found.length) this.rows.push(this.add());
    found.forEach((connection, index) => {
      const row = this.rows[index]!;
      setText(row.title, connection.title);
      setText(row.place, connection.place);
      setText(row.state, connection.state);
      row.row.classList.toggle("troubled", connection.troubled);
      const names = connection.figures.map(([name]) => name).join("\n");
      if (names !== row.names) {
        row.names = names;
        row.values = connection.figures.map(() => element("dd"));
        row.list.replaceChildren(...connection.figures.map(([name], number) => element("div", {}, element("dt", {}, name), row.values[number]!)));
      }
      connection.figures.forEach(([, value], number) => setText(row.values[number]!, value));
    });
  }

  private add(): Row {
    const [title, place, state] = [element("h3"), element("code"), element("p", { class: "state" })];
    const list = element("dl", { class: "peer-figures" });
    const row = element("article", { class: "connection" }, title, place, state, list);
    this.list.append(row);
    return { row, title, place, state, list, names: "", values: [] };
  }
}
