/** A bit rate out of a count of bytes that is looked at now and then. */
const WINDOW_MS = 3000;

export class RateMeter {
  private looks: { atMs: number; bytes: number }[] = [];

  /** Bits a second over the last three seconds; null before there is anything to compare with. */
  look(nowMs: number, bytes: number): number | null {
    const first = this.looks[0];
    if (first && bytes < first.bytes) this.looks = [];
    this.looks.push({ atMs: nowMs, bytes });
    while (this.looks.length > 2 && this.looks[1]!.atMs <= nowMs - WINDOW_MS) this.looks.shift();
    const from = this.looks[0]!;
    const spanMs = nowMs - from.atMs;
    return spanMs >= 500 ? ((bytes - from.bytes) * 8000) / spanMs : null;
  }
}
