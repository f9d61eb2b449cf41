/** For operators: a clip of the last seconds, or of those before the recorded moment that is shown. */
import { type Clip, type ClipState, clipState, orderClip } from "../clip_api";
import { operatorKey } from "../operator";
import { element, setText } from "./dom";
import { bytes } from "./format";

/** How much a clip shows. */
export const CLIP_S = 30;
const LOOK_MS = 500;
/** So often in a row the server may leave a question without an answer. */
const LOST_MAX = 10;

/** What is made, as the button has it. */
export function clipLabel(isLive: boolean): string {
  return isLive ? `Clip the last ${CLIP_S} seconds` : `Clip the ${CLIP_S} seconds before this`;
}

/** What a clip is, for people. */
export function clipText(clip: Clip, locale?: string, timeZone?: string): string {
  const options = { timeStyle: "medium", ...(timeZone ? { timeZone } : {}) } as const;
  const from = new Date(clip.from).toLocaleTimeString(locale, options);
  const lacks = clip.missing.length > 0 || clip.lost_objects > 0 ? " · something of that time is missing" : "";
  return `${clip.seconds.toFixed(0)} s from ${from} · ${bytes(clip.bytes)}${lacks}`;
}

export class ClipMaker {
  private readonly button = element("button", { type: "button", class: "choice" });
  private readonly picture = element("img", { alt: "First picture of the clip", decoding: "async", hidden: true });
  private readonly link = element("a", { class: "action", hidden: true, download: true }, "Download the clip");
  private readonly words = element("span", { class: "hint", role: "status" });
  private readonly result = element("div", { class: "clip-result", hidden: true }, this.picture, this.words, this.link);
  readonly element = element("div", { class: "clip", hidden: true }, this.button, this.result);
  /** The recorded moment that is shown, in ms of UTC; null: live. */
  private shownMs: number | null = null;
  private isKnown = true;
  private isMaking = false;

  constructor(private readonly name: () => string) {
    this.button.addEventListener("click", () => void this.make());
    this.picture.addEventListener("error", () => (this.picture.hidden = true));
    this.showTime(null, false);
  }

  /** Whether clips may be made by the one that looks at the page. */
  allow(may: boolean): void {
    this.element.hidden = !may;
  }

  /** Which moment is shown; null in a recording: it is not known yet. */
  showTime(shownMs: number | null, isRecorded: boolean): void {
    this.shownMs = shownMs;
    setText(this.button, clipLabel(!isRecorded));
    this.isKnown = !isRecorded || shownMs !== null;
    this.enable();
  }

  private enable(): void {
    this.button.disabled = this.isMaking || !this.isKnown;
  }

  private async make(): Promise<void> {
    this.isMaking = true;
    this.enable();
    this.show({ state: "making" }, 0);
    const begun = performance.now();
    const key = operatorKey();
    const ordered = await orderClip(this.name(), { seconds: CLIP_S, endMs: this.shownMs }, key);
    let state: ClipState = "state" in ordered ? ordered : { state: "making" };
    let lost = 0;
    while (state.state === "making" && !("state" in ordered)) {
      this.show(state, (performance.now() - begun) / 1000);
      await new Promise((resolve) => window.setTimeout(resolve, LOOK_MS));
      const told = await clipState(ordered, key);
      lost = told === null ? lost + 1 : 0;
      if (told !== null) state = told;
      else if (lost >= LOST_MAX) state = { state: "failed", words: "The server does not answer any more." };
    }
    this.show(state, 0);
    this.isMaking = false;
    this.enable();
  }

  private show(state: ClipState, seconds: number): void {
    this.result.hidden = false;
    this.result.dataset["state"] = state.state;
    this.link.hidden = state.state !== "done";
    this.picture.hidden = state.state !== "done" || state.poster === null;
    if (state.state === "making") setText(this.words, seconds < 1 ? "Making the clip…" : `Making the clip… ${Math.floor(seconds)} s`);
    if (state.state === "failed") setText(this.words, `No clip: ${state.words}`);
    if (state.state === "done") {
      setText(this.words, clipText(state.clip));
      this.link.href = state.file;
      if (state.poster !== null) this.picture.src = state.poster;
    }
  }
}
