/** A stream on the operators' page of an event: its small picture, its figures, and a button for a key frame. */
import { figuresPath, type StreamInfo, watchPath } from "../api";
import { behindText } from "../event/alarm_words";
import { codecsText, noteTexts } from "./dashboard";
import { element, setAttribute, setText } from "./dom";
import { age, bitrate } from "./format";
import { Sparkline } from "./sparkline";
import { Thumbnail } from "./thumbnail";
import { BehindBars } from "./why";

export class CrewStream {
  readonly element: HTMLElement;
  private readonly thumbnail: Thumbnail;
  private readonly state = element("span", { class: "badge" });
  private readonly codecs = element("p", { class: "codecs" });
  private readonly rate = element("span", { class: "rate" });
  private readonly spark = new Sparkline();
  private readonly facts: Record<string, HTMLElement> = {};
  private readonly notes = element("p", { class: "notes", hidden: true });
  private readonly bars = new BehindBars();
  private readonly behind: HTMLDetailsElement;
  private readonly watch: HTMLAnchorElement;
  private readonly ask: HTMLButtonElement;
  private readonly figures: HTMLAnchorElement;

  constructor(private readonly name: string, keyFrame: (name: string, button: HTMLButtonElement) => void) {
    this.thumbnail = new Thumbnail(name);
    const facts = element("dl", { class: "facts" });
    for (const label of ["Viewers", "Behind live", "Key frame every", "Newest byte"]) {
      const value = (this.facts[label] = element("dd", {}, "–"));
      facts.append(element("div", {}, element("dt", {}, label), value));
    }
    const figures = (this.figures = element("a", { href: figuresPath(name), class: "action" }, "Figures"));
    this.watch = element("a", { href: watchPath(name), class: "action" }, "Watch");
    const ask: HTMLButtonElement = this.ask = element("button", { type: "button", class: "action", "aria-label": `Key frame of ${name}`, onclick: () => keyFrame(name, ask) }, "Key frame");
    this.behind = element("details", { class: "crew-behind", hidden: true }, element("summary", {}, "Viewers by how far they are behind live"), this.bars.element);
    this.element = element(
      "article", { class: "crew-stream", "aria-label": name }, this.thumbnail.element,
      element("div", { class: "crew-facts" },
        element("header", {}, element("h3", {}, name), this.state), this.codecs,
        element("div", { class: "rate-row" }, this.rate, this.spark.element), facts, this.notes, this.behind,
        element("div", { class: "crew-buttons" }, ask, this.watch, figures)),
    );
    this.update(null);
  }

  /** Null: the server knows no stream of this name now. `key` is the operator's, as a query. */
  update(stream: StreamInfo | null, key: string | null = null): void {
    const isLive = (stream?.live ?? false) && !stream?.slate?.on_air;
    this.state.className = isLive ? "badge live" : "badge gone";
    setText(this.state, stream?.slate?.on_air ? "Slate" : isLive ? "Live" : "Not live");
    this.element.classList.toggle("gone", !isLive);
    this.thumbnail.show(stream?.thumbnail ?? null, stream?.access ?? key);
    this.ask.hidden = this.figures.hidden = stream === null;
    this.codecs.hidden = this.rate.parentElement!.hidden = stream === null;
    this.facts["Viewers"]!.closest("dl")!.hidden = stream === null;
    this.behind.hidden = (stream?.viewers ?? 0) === 0 || !stream?.behind;
    if (stream === null) {
      this.notes.hidden = true;
      return;
    }
    setAttribute(this.watch, "href", watchPath(this.name, stream.access));
    setText(this.codecs, codecsText(stream));
    setText(this.rate, bitrate(stream.bitrate_bps));
    this.spark.push(stream.bitrate_bps);
    setText(this.facts["Viewers"]!, String(stream.viewers));
    setText(this.facts["Behind live"]!, behindText(stream.behind));
    setText(this.facts["Key frame every"]!, stream.key_frame_interval_s === null ? "–" : `${stream.key_frame_interval_s.toFixed(1)} s`);
    setText(this.facts["Newest byte"]!, stream.newest_byte_age_ms === null ? "–" : `${age(stream.newest_byte_age_ms)} ago`);
    const notes = noteTexts(stream);
    this.notes.hidden = notes.length === 0;
    setText(this.notes, notes.join(" · "));
    if (stream.behind) this.bars.show(stream.behind);
  }

  /** What grows old by itself. */
  tick(): void {
    this.thumbnail.tick();
  }
}
