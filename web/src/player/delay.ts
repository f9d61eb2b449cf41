/** Glass-to-glass delay out of the barcodes of shown pictures: the last value, and percentiles over the last second. */
import { ageUs } from "../barcode";

export interface DelaySummary {
  last: number;
  p50: number;
  p95: number;
}

const WINDOW_MS = 1000;
const STALE_MS = 2000;

export class DelayMeter {
  private samples: { atMs: number; delayMs: number }[] = [];

  /** A picture captured at `captureUs` (barcode) was shown at `nowMs`, which is `serverUs` on the server's clock. */
  shown(nowMs: number, serverUs: number, captureUs: number): void {
    this.samples.push({ atMs: nowMs, delayMs: ageUs(serverUs, captureUs) / 1000 });
    while (this.samples.length > 1 && this.samples[0]!.atMs < nowMs - WINDOW_MS) this.samples.shift();
  }

  reset(): void {
    this.samples = [];
  }

  /** In ms; null when no barcode was read for two seconds. */
  summary(nowMs: number): DelaySummary | null {
    const last = this.samples.at(-1);
    if (!last || nowMs - last.atMs > STALE_MS) return null;
    const sorted = this.samples.map((s) => s.delayMs).sort((a, b) => a - b);
    return { last: last.delayMs, p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95) };
  }
}

/** Nearest-rank percentile of a sorted, non-empty list. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}
