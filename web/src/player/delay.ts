/**
 * Glass-to-glass delay out of the capture times of shown pictures, which the stream says or a barcode in the picture:
 * the last value, and percentiles over the last second.
 */
import { ageUs } from "../barcode";

/** Where a capture time comes from: the stream beside the picture, the picture itself, or the playlist. */
export type CaptureSource = "stream" | "picture" | "playlist";

export interface DelaySummary {
  last: number;
  p50: number;
  p95: number;
  source: CaptureSource;
}

const WINDOW_MS = 1000;
const STALE_MS = 2000;

export class DelayMeter {
  private samples: { atMs: number; delayMs: number; source: CaptureSource }[] = [];

  /** A picture captured at `captureUs` was shown at `nowMs`, which is `serverUs` on the server's clock. */
  shown(nowMs: number, serverUs: number, captureUs: number, source: CaptureSource): void {
    this.samples.push({ atMs: nowMs, delayMs: ageUs(serverUs, captureUs) / 1000, source });
    while (this.samples.length > 1 && this.samples[0]!.atMs < nowMs - WINDOW_MS) this.samples.shift();
  }

  reset(): void {
    this.samples = [];
  }

  /** In ms; null when no capture time was known for two seconds. */
  summary(nowMs: number): DelaySummary | null {
    const last = this.samples.at(-1);
    if (!last || nowMs - last.atMs > STALE_MS) return null;
    const sorted = this.samples.map((s) => s.delayMs).sort((a, b) => a - b);
    return { last: last.delayMs, p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95), source: last.source };
  }
}

/** Nearest-rank percentile of a sorted, non-empty list. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}
