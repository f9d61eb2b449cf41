/**
 * From one rendition of a stream to another without a seam: both are read for a while, the first is shown on, and at a key
 * frame that both have the second goes on in its place.
 *
 *   old   … P P P│K P P          held from its key frame on, until the other's comes
 *   next    K P P│K P P P …      dropped before that key frame; held from it on, until the old one has come there
 *
 * Renditions of one encoder have one clock and their key frames in common. Where the key frames differ, the second's next
 * one that is not in the past is taken; where the clocks differ, nothing fits, and who asked gives up.
 */
import type { Feed } from "../media/feed";
import { inspectPicture, stampDistance } from "../media/feed";
import type { AccessUnitInfo } from "../media/h264";
import type { PesUnit } from "../media/ts";

/** No picture of the old stream waits longer than this. */
const PATIENCE_MS = 400;
/** Stamps that are further apart are of different clocks: 2 s. */
const NEAR = 180_000;
/** Sound that is kept of the next stream: some seconds. */
const MAX_SOUND = 600;

export class Splice {
  private held: PesUnit[] = [];
  /** The next stream's from the key frame on at which it takes over, once the old one has come there. */
  private ready: PesUnit[] = [];
  private sinceMs = 0;
  /** Sound of the next stream that the old one may not have had. */
  private sound: PesUnit[] = [];
  private alive = false;
  private lastDts: number | null = null;
  private over = false;

  /** `done` is told when the next feed has taken over. The old one then passes nothing any more. */
  constructor(
    private readonly old: Feed, private readonly next: Feed,
    private readonly nowMs: () => number, private readonly done: () => void,
  ) {
    old.gate = (unit) => this.ofOld(unit);
    next.gate = (unit) => this.ofNext(unit);
  }

  /** Goes back to the old stream alone. */
  cancel(): void {
    if (this.over) return;
    this.over = true;
    this.old.gate = null;
    this.release();
  }

  private ofOld(unit: PesUnit): void {
    if (this.over) return;
    if (!this.old.isPicture(unit)) {
      this.old.take(unit);
      return;
    }
    const key = this.ready[0];
    if (key) {
      if (stampDistance(unit.dts, key.dts) < 0) this.pass(unit);
      else this.switchOver();
      return;
    }
    if (this.held.length === 0 && !(this.alive && inspectPicture(unit).idr)) {
      this.pass(unit);
      return;
    }
    if (this.held.length === 0) this.sinceMs = this.nowMs();
    this.held.push(unit);
    if (this.nowMs() - this.sinceMs > PATIENCE_MS) this.release();
  }

  private pass(unit: PesUnit): void {
    this.lastDts = unit.dts;
    this.old.take(unit);
  }

  private release(): void {
    for (const unit of this.held.splice(0)) this.pass(unit);
  }

  private ofNext(unit: PesUnit): void {
    if (this.over) return;
    if (!this.next.isPicture(unit)) {
      this.sound.push(unit);
      if (this.sound.length > MAX_SOUND) this.sound.shift();
      return;
    }
    if (this.ready.length > 0) {
      this.ready.push(unit);
      // The old stream comes too late for all this: that may be why another one is wanted.
      if (this.nowMs() - this.sinceMs > PATIENCE_MS) this.switchOver();
      return;
    }
    this.alive = true;
    const info = inspectPicture(unit);
    this.next.remember(info);
    if (!info.idr || !this.fits(unit, info)) return;
    this.ready.push(unit);
    this.sinceMs = this.nowMs();
    // What is held begins where the old stream is to end, and with nothing shown there is nothing to wait for.
    if (this.held.length > 0 || this.lastDts === null) this.switchOver();
  }

  /** Whether the next stream can go on from this key frame. */
  private fits(unit: PesUnit, info: AccessUnitInfo): boolean {
    if (info.slices === 0) return false;
    const first = this.held[0];
    if (first) {
      const ahead = stampDistance(unit.dts, first.dts);
      return ahead >= 0 && ahead < NEAR;
    }
    // Nothing was shown yet, so nothing can be missed.
    if (this.lastDts === null) return true;
    const ahead = stampDistance(unit.dts, this.lastDts);
    return ahead > 0 && ahead < NEAR;
  }

  private switchOver(): void {
    this.over = true;
    const key = this.ready[0]!;
    for (const unit of this.held.splice(0)) {
      if (stampDistance(unit.dts, key.dts) < 0) this.old.take(unit);
    }
    this.old.gate = () => undefined;
    this.next.gate = null;
    this.next.continueFrom(this.old);
    this.done();
    for (const unit of [...this.ready.splice(0), ...this.sound.splice(0)]) this.next.take(unit);
  }
}
