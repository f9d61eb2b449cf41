/** When the pictures of a media time line were captured: points that the chunks tell, and what lies between them. */

/** A point of the media time line whose capture time is known. */
export interface CapturePoint {
  mediaS: number;
  /** UTC in µs. */
  captureUs: number;
  /** The picture's number in the ledger of stages, where it has one. */
  number?: number;
}

/** Two minutes of pictures at 50 a second: more than the window that one can go back in. */
const REMEMBERED = 6000;
/** A point says nothing of pictures that are further from it: a break of the stream may lie between. */
const REACH_S = 1;
const SAME_S = 0.001;

export class CaptureLine {
  private points: CapturePoint[] = [];

  /** The last word on a time counts: after a jump back the same ones come again. */
  add(point: CapturePoint): void {
    const at = this.after(point.mediaS + SAME_S);
    const before = this.points[at - 1];
    if (before && before.mediaS > point.mediaS - SAME_S) this.points[at - 1] = point;
    else this.points.splice(at, 0, point);
    if (this.points.length > REMEMBERED) this.points.shift();
  }

  /** Capture time in µs of the picture shown at `mediaS`; null where nothing near it is known. */
  at(mediaS: number): number | null {
    const point = this.points[this.after(mediaS + SAME_S) - 1];
    if (!point || mediaS - point.mediaS > REACH_S) return null;
    return point.captureUs + (mediaS - point.mediaS) * 1e6;
  }

  /** The number of the picture that begins at `mediaS`; null where none does, or it has none. */
  numberAt(mediaS: number): number | null {
    const point = this.points[this.after(mediaS + SAME_S) - 1];
    return point && mediaS - point.mediaS <= SAME_S ? (point.number ?? null) : null;
  }

  clear(): void {
    this.points = [];
  }

  /** Index of the first point that is later. */
  private after(mediaS: number): number {
    let [low, high] = [0, this.points.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.points[middle]!.mediaS <= mediaS) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
