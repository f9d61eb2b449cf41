/** The bar that goes back in what is still there, and the button that comes back to now. */
import { type Standing, standingText } from "../player/follow";
import type { Timeline } from "../player/playing";
import { element, setText } from "./dom";

/** What an arrow key moves by. */
export const STEP_S = 5;

export class SeekBar {
  private readonly slider = element("input", {
    type: "range", class: "seek", max: "0", step: "any", "aria-label": "Position in the stream (arrow keys: 5 seconds; End or l: live)",
  });
  private readonly told = element("span", { class: "seek-text", "aria-hidden": "true" });
  private readonly live = element("button", { type: "button", class: "live-button", title: "Go to live (l)" }, "Live");
  readonly element = element("div", { class: "seek-row", hidden: true }, this.slider, this.told, this.live);
  private held = false;

  constructor(private readonly timeline: () => Timeline | null) {
    this.slider.addEventListener("pointerdown", () => (this.held = true));
    for (const kind of ["pointerup", "pointercancel"]) this.slider.addEventListener(kind, () => (this.held = false));
    this.slider.addEventListener("input", () => this.say(Number(this.slider.value)));
    // Not at each step of a drag: each one would begin loading elsewhere.
    this.slider.addEventListener("change", () => {
      this.held = false;
      this.timeline()?.seekTo(Number(this.slider.value));
      this.show();
    });
    this.slider.addEventListener("keydown", (event) => {
      if (this.key(event.key)) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
    this.live.addEventListener("click", () => this.key("l"));
  }

  /** Acts on a key; whether it was one of the bar's. */
  key(key: string): boolean {
    const timeline = this.timeline();
    const now = timeline?.standing();
    if (!timeline || !now) return false;
    const by: Record<string, number> = {
      ArrowLeft: -STEP_S, ArrowRight: STEP_S, ArrowDown: -STEP_S, ArrowUp: STEP_S, PageDown: -3 * STEP_S, PageUp: 3 * STEP_S,
    };
    if (key in by) timeline.seekTo(now.position + by[key]!);
    else if (key === "Home") timeline.seekTo(now.earliest);
    else if (key === "End" || key === "l") timeline.goLive();
    else return false;
    this.show();
    return true;
  }

  /** Shows where playback is. */
  show(): void {
    const timeline = this.timeline();
    const now = timeline?.standing() ?? null;
    this.element.hidden = now === null || now.earliest > -2;
    if (!timeline || !now || this.held) return;
    this.slider.min = now.earliest.toFixed(1);
    const position = timeline.live ? 0 : now.position;
    this.slider.value = String(position);
    this.say(position, timeline.live);
    this.fill(now, position);
  }

  private say(position: number, live = false): void {
    // "Live" while it is kept there; a second behind it is none.
    const text = live ? "Live" : standingText(Math.min(position, -1));
    this.slider.setAttribute("aria-valuetext", text);
    setText(this.told, live ? "" : `−${Math.round(-position)} s`);
    this.live.setAttribute("aria-pressed", String(live));
  }

  private fill({ earliest }: Standing, position: number): void {
    const share = earliest === 0 ? 1 : 1 - position / earliest;
    this.slider.style.setProperty("--played", `${(share * 100).toFixed(2)}%`);
  }
}
