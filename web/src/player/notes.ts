/** What is known of coded pictures, for when they reach the screen: decoders keep nothing of it but the time. */
import type { VideoUnit } from "../media/feed";

export interface Note {
  ptsUs: number;
  /** Pictures from this one on that are not right yet; 0: all is right. */
  settlingFrames: number;
  captureUs: number | null;
  /** Its number in the ledger of stages. */
  number: number;
}

/** More pictures than any browser holds between decoding and showing. */
const REMEMBERED = 600;
/** Times go through clocks of 90 kHz and doubles of seconds; pictures are further apart than this. */
const NEAR_US = 1500;

export class PictureNotes {
  private notes: Note[] = [];

  add({ ptsUs, settlingFrames, captureUs }: VideoUnit, number: number): void {
    this.notes.push({ ptsUs, settlingFrames, captureUs, number });
    if (this.notes.length > REMEMBERED) this.notes.shift();
  }

  /** What is known of the picture with the time nearest to `ptsUs`; null where none is near. The last one added counts. */
  of(ptsUs: number): Note | null {
    let best: Note | null = null;
    for (const note of this.notes) {
      const distance = Math.abs(note.ptsUs - ptsUs);
      if (distance <= NEAR_US && (!best || distance <= Math.abs(best.ptsUs - ptsUs))) best = note;
    }
    return best;
  }
}
