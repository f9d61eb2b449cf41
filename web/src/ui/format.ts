/** Numbers as people read them. */

export function bitrate(bps: number): string {
  if (bps >= 1e6) return `${(bps / 1e6).toFixed(bps >= 1e7 ? 0 : 1)} Mbit/s`;
  return `${Math.round(bps / 1e3)} kbit/s`;
}

export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export function age(ms: number | null): string {
  if (ms === null) return "–";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** How long a first byte took. What is shorter than 0.13 ms, which the server does not tell apart, is 0.1 ms. */
export function waited(ms: number | null): string {
  if (ms === null) return "–";
  if (ms < 0.13) return "0.1 ms";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
}

export function milliseconds(ms: number | null): string {
  return ms === null ? "–" : `${Math.round(ms)} ms`;
}

/** A delay: from ten seconds on nobody counts its milliseconds. */
export function delayed(ms: number): string {
  return ms < 10_000 ? milliseconds(ms) : `${(ms / 1000).toFixed(1)} s`;
}

/** A delay beside others on an axis that ends at `top`: all in one unit. */
export function delayOnAxis(ms: number, top: number): string {
  return top < 10_000 ? milliseconds(ms) : `${Number((ms / 1000).toFixed(1))} s`;
}

/** "1 segment", "1,234 segments". */
export function countOf(count: number, what: string): string {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

export function bytes(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} GB`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)} MB`;
  return `${Math.round(count / 1e3)} kB`;
}
