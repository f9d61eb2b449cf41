/** Quantities in three digits and decimal multiples, as `glassline probe --flight` writes them. */

function threeDigits(value: number): string {
  const decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  const text = value.toFixed(decimals);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function scaled(value: number, units: readonly [string, string, string, string]): string {
  const step = [999.5, 999.5e3, 999.5e6].filter((limit) => value >= limit).length;
  return `${threeDigits(value / 1000 ** step)} ${units[step]}`;
}

export function bytes(count: number): string {
  return scaled(count, ["B", "kB", "MB", "GB"]);
}

export function bits(perSecond: number): string {
  return scaled(perSecond, ["b/s", "kb/s", "Mb/s", "Gb/s"]);
}

export function seconds(length: number): string {
  if (length === 0) return "0 s";
  return length >= 0.9995 ? `${threeDigits(length)} s` : scaled(length * 1e9, ["ns", "µs", "ms", "s"]);
}

export function things(count: number, one: string): string {
  return `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
}
