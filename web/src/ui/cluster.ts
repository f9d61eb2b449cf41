/** The page `/cluster`: the servers that have streams of each other, as one of them sees it, for operators. */
import { type Cluster, cluster, type ClusterNode } from "../cluster_api";
import { byName, carriersText, chosenStreams, factsText, nodeState, registryText, summaryText, troubles, wayText } from "../cluster_words";
import { Poller } from "../poll";
import { ROOT } from "../root";
import { brand } from "./dashboard";
import { element, setText } from "./dom";

const REFRESH_MS = 2000;
/** Answers with more streams than this are long. */
const MANY_STREAMS = 2000;
const MANY_MS = 10_000;
/** What refuses is asked so often whether it still does. */
const CLOSED_MS = 30_000;
/** So many streams are shown at a time. */
const SHOWN_STREAMS = 200;

const CLOSED =
  "This page is for operators. Open it in a network that [admin] networks lists in the server's configuration, or at the admin listener ([admin] listen, as through an SSH tunnel).";

/** A table that is filled anew where what it shows has changed. */
class Table {
  private readonly heads = element("tr");
  private readonly body = element("tbody");
  private shown = "";
  readonly element: HTMLElement;

  constructor(label: string) {
    this.element = element(
      "div", { class: "table-place", role: "region", "aria-label": label, tabindex: "0" },
      element("table", {}, element("thead", {}, this.heads), this.body));
  }

  /** Each row has as many cells as there are heads; the first one names it. */
  show(heads: readonly string[], rows: readonly (readonly (string | (() => Node))[])[], state: string): void {
    if (state === this.shown) return;
    this.shown = state;
    this.heads.replaceChildren(...heads.map((head) => element("th", { scope: "col" }, head)));
    const cell = (content: string | (() => Node)): Node => (typeof content === "string" ? document.createTextNode(content) : content());
    this.body.replaceChildren(...rows.map(([first, ...others]) => element(
      "tr", {}, element("th", { scope: "row" }, cell(first!)), ...others.map((other) => element("td", {}, cell(other))))));
  }
}

function badge(word: string, className: string): () => Node {
  return () => element("span", { class: className }, word);
}

function panel(heading: string, hint: HTMLElement, ...children: HTMLElement[]): HTMLElement {
  return element("section", { class: "panel cluster", "aria-label": heading }, element("header", {}, element("h2", {}, heading), hint), ...children);
}

class ClusterView {
  private readonly registry = element("p", { class: "cluster-registry" });
  private readonly facts = element("p", { class: "hint" });
  private readonly troubles = element("div", { role: "status" });
  private readonly nodes = new Table("Servers");
  private readonly streams = new Table("Streams");
  private readonly map = new Table("Map");
  private readonly unread = new Table("Entries that are not read");
  private readonly streamsHint = element("p", { class: "hint" });
  private readonly search = element("input", { type: "search", class: "cluster-search", placeholder: "Stream or server", "aria-label": "Show streams or servers called" });
  private readonly panels: Record<"nodes" | "streams" | "map" | "unread", HTMLElement>;
  private last: Cluster | null = null;
  private shownTroubles = "[]";
  readonly element: HTMLElement;

  constructor() {
    const hint = (text: string): HTMLElement => element("p", { class: "hint" }, text);
    this.search.addEventListener("input", () => this.last && this.showStreams(this.last));
    this.panels = {
      nodes: panel("Servers", hint("as this one sees them"), this.nodes.element),
      streams: panel("Streams", this.streamsHint, this.search, this.streams.element),
      map: panel("Map", hint("Streams that the configuration of this server places elsewhere"), this.map.element),
      unread: panel("Entries that are not read", hint("Their streams cannot be published"), this.unread.element),
    };
    this.element = element("div", { class: "panels" }, element("div", {}, this.troubles, this.registry, this.facts), ...Object.values(this.panels));
  }

  show(one: Cluster): void {
    this.last = one;
    const { registry, nodes = [], unread = [] } = one;
    setText(this.registry, registry ? registryText(registry) : one.static.length > 0
      ? "This server has no registry: its map says which streams are at other servers."
      : "This server is not in a cluster: its configuration has no [cluster] section with nats or static.");
    setText(this.facts, registry ? factsText(registry) : "");
    const found = troubles(one);
    if (JSON.stringify(found) !== this.shownTroubles) {
      this.shownTroubles = JSON.stringify(found);
      this.troubles.replaceChildren(...found.map(({ what, todo }) =>
        element("div", { class: "banner" }, element("p", {}, element("strong", {}, what)), element("p", {}, todo))));
    }
    this.panels.nodes.hidden = nodes.length === 0;
    this.showNodes(nodes);
    this.panels.streams.hidden = registry === undefined;
    this.showStreams(one);
    this.panels.map.hidden = one.static.length === 0;
    this.map.show(["Streams", "At"], one.static.map(({ pattern, server }) => [pattern, server]), JSON.stringify(one.static));
    this.panels.unread.hidden = unread.length === 0;
    this.unread.show(["Stream", "Why"], unread.map(({ name, error }) => [name, error]), JSON.stringify(unread));
  }

  private showNodes(nodes: readonly ClusterNode[]): void {
    const rows = [...nodes].sort((a, b) => byName.compare(a.name, b.name)).map((node) => {
      const { word, className } = nodeState(node);
      const name = (): Node => element("span", {}, node.name, node.own ? element("span", { class: "quiet" }, " (this one)") : null);
      return [name, badge(word, className), node.zone || "–", String(node.viewers), node.version, node.address];
    });
    this.nodes.show(["Server", "State", "Zone", "Viewers", "Version", "Address"], rows, JSON.stringify(nodes));
  }

  private showStreams({ streams = [], pulled = [], node = "" }: Cluster): void {
    const chosen = chosenStreams(streams, this.search.value);
    const shown = chosen.slice(0, SHOWN_STREAMS);
    this.search.hidden = streams.length < 10;
    const more = chosen.length > shown.length ? `the first ${shown.length} of ${chosen.length}` : `${chosen.length}`;
    setText(this.streamsHint, streams.length === 0 ? "none was published yet" : `${more}; live ones first`);
    const byStream = new Map(pulled.map((pull) => [pull.stream, pull]));
    const tellsPulls = pulled.length > 0;
    const rows = shown.map((stream) => [
      stream.name, badge(stream.live ? "Live" : "Not live", stream.live ? "badge live" : "badge"), stream.node, String(stream.epoch),
      carriersText(stream), ...(tellsPulls ? [stream.live ? wayText(stream, byStream.get(stream.name), node) : "–"] : []),
    ]);
    this.streams.show(["Stream", "State", "Server", "Epoch", "Carried by", ...(tellsPulls ? ["Way to here"] : [])], rows, JSON.stringify([shown, pulled, node]));
  }
}

/** Shows the cluster in `root` and keeps it fresh. */
export function clusterPage(root: HTMLElement): void {
  document.title = "Cluster · Glassline";
  const summary = element("p", { class: "summary", role: "status" }, "Asking the server…");
  const trouble = element("p", { class: "banner", role: "alert", hidden: true }, "The server does not answer. What is below is old.");
  const closed = element("section", { class: "empty", role: "status", hidden: true }, CLOSED);
  const view = new ClusterView();
  view.element.hidden = true;
  root.append(element(
    "div", { class: "page" },
    element("header", { class: "top" },
      element("h1", {}, element("a", { href: ROOT, class: "home", "aria-label": "All streams" }, brand()), "Cluster"), summary),
    trouble, closed, view.element));
  new Poller(REFRESH_MS, async () => {
    const told = await cluster();
    const isClosed = told === 401 || told === 403 || told === 404;
    closed.hidden = !isClosed;
    if (isClosed) {
      [view.element.hidden, trouble.hidden] = [true, true];
      setText(summary, "");
      return CLOSED_MS;
    }
    const isTold = told !== null && typeof told !== "number";
    trouble.hidden = isTold;
    view.element.classList.toggle("old", !isTold);
    if (!isTold) return REFRESH_MS;
    view.element.hidden = false;
    view.show(told);
    setText(summary, summaryText(told));
    return (told.streams?.length ?? 0) > MANY_STREAMS ? MANY_MS : REFRESH_MS;
  }).start();
}
