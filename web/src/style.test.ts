import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const css = readFileSync(new URL("./style.css", import.meta.url), "utf8");

type Colours = Record<string, string>;

/** The colours that a block of declarations names. */
function colours(block: string): Colours {
  return Object.fromEntries([...block.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map((it) => [it[1], it[2]]));
}

const media = css.indexOf("@media (prefers-color-scheme: light)");
const dark = colours(css.slice(0, media));
const light = { ...dark, ...colours(css.slice(media, css.indexOf("font-family"))) };

/** Relative luminance (WCAG 2.2). */
function luminance(colour: string): number {
  const part = (at: number) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

/** Of two colours of a scheme, by their names. */
function contrast(scheme: Colours, one: string, other: string): number {
  const [first, second] = [luminance(scheme[one] ?? ""), luminance(scheme[other] ?? "")];
  return (Math.max(first, second) + 0.05) / (Math.min(first, second) + 0.05);
}

describe.each([["dark", dark], ["light", light]] as [string, Colours][])("the %s scheme", (_, scheme) => {
  const grounds = ["ground", "raised", "sunk", "sunk-more"];
  const words = ["text", "quiet", "accent", "good", "warn", "bad"];
  const pairs: [string, string][] = [
    ...words.flatMap((word) => grounds.map((ground): [string, string] => [word, ground])),
    ["on-accent", "accent"],
    ["good", "good-ground"],
    ["warn", "warn-ground"],
    ["bad", "bad-ground"],
    ["bad-text", "bad-ground"],
  ];

  // WCAG 2.2, 1.4.3: text of ordinary size.
  it.each(pairs)("has %s on %s that can be read", (word, ground) => {
    expect(contrast(scheme, word, ground)).toBeGreaterThanOrEqual(4.5);
  });

  // WCAG 2.2, 1.4.11: what pictures and charts are understood by.
  it.each(Object.keys(scheme).filter((name) => name.startsWith("line-")))("has %s that can be seen", (line) => {
    for (const ground of ["ground", "raised"]) {
      expect(contrast(scheme, line, ground)).toBeGreaterThanOrEqual(3);
    }
  });
});
