/** The newest small picture of a stream, in a box of a size of its own. */
import { thumbnailPath } from "../event_api";
import { element, setText } from "./dom";
import { duration } from "./format";

/** A stream that moves has another picture more often than this. */
const FRESH_S = 15;

export class Thumbnail {
  private readonly image: HTMLImageElement;
  private readonly age = element("span", { class: "thumbnail-age" });
  private version: string | null = null;
  /** When the picture changed as seen from here; null for the first one, which may be older. */
  private changedMs: number | null = null;
  readonly element: HTMLElement;

  constructor(private readonly name: string) {
    this.image = element("img", { alt: `Picture of ${name} some seconds ago`, decoding: "async", hidden: true });
    // A picture that is gone by the time it is asked for leaves the box empty.
    this.image.addEventListener("error", () => (this.image.hidden = true));
    this.element = element("div", { class: "thumbnail" }, this.image, this.age);
  }

  /** Shows this version of the picture; null: there is none. `access` is the query that it needs. */
  show(version: string | null, access: string | null = null): void {
    this.element.classList.toggle("none", version === null);
    if (version !== this.version) {
      this.changedMs = this.version === null ? null : performance.now();
      this.version = version;
      this.image.hidden = version === null;
      if (version === null) this.image.removeAttribute("src");
      else this.image.src = thumbnailPath(this.name, version, access);
    }
    this.tick();
  }

  tick(): void {
    setText(this.age, this.version === null ? "" : ageText(this.changedMs === null ? null : (performance.now() - this.changedMs) / 1000));
  }
}

/**
 * How old a picture is by its last change; empty where that is not known. A picture that stays the same is not an old one:
 * slides stand still, and the server tells pictures apart by what they show.
 */
export function ageText(seconds: number | null): string {
  if (seconds === null) return "";
  if (seconds < 2) return "new";
  return seconds < FRESH_S ? `${duration(seconds)} old` : `same for ${duration(seconds)}`;
}
