import jsqr from "jsqr";
import { describe, expect, it } from "vitest";
import { QUIET, qrPath } from "./qr";

// The package is CommonJS that says that it is a module.
const read = (jsqr as unknown as { default?: typeof jsqr }).default ?? jsqr;

/** The picture that a browser makes of the path, with `scale` pixels a module. */
function drawn({ size, path }: { size: number; path: string }, scale: number): { data: Uint8ClampedArray; side: number } {
  const side = size * scale;
  const data = new Uint8ClampedArray(side * side * 4).fill(255);
  const runs = [...path.matchAll(/M(\d+) (\d+)h(\d+)v1h-(\d+)z/g)];
  expect(runs.map(([run]) => run).join("")).toBe(path);
  for (const [, x, y, width, back] of runs.map((run) => run.map(Number))) {
    expect(back).toBe(width);
    for (let row = y! * scale; row < (y! + 1) * scale; row++) {
      for (let column = x! * scale; column < (x! + width!) * scale; column++) data.fill(0, (row * side + column) * 4, (row * side + column) * 4 + 3);
    }
  }
  return { data, side };
}

/** An address of just so many letters. */
function address(length: number): string {
  const begin = "https://live.example.org/watch/hall?expires=1790000000&token=";
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  let text = begin.slice(0, Math.min(length, begin.length));
  for (let i = 0; text.length < length; i++) text += letters[(i * 37 + length) % letters.length];
  return text;
}

describe("a QR code", () => {
  it.each([20, 33, 47, 60, 80, 100, 150, 200, 250, 300, 350, 400])("of an address of %i letters is read back as it was written", (length) => {
    const text = address(length);
    expect(text).toHaveLength(length);
    const { data, side } = drawn(qrPath(text), 4);
    expect(read(data, side, side)?.data).toBe(text);
  });

  it("is read back with a stain on it, which error correction is for", () => {
    const text = address(120);
    const code = qrPath(text);
    const { data, side } = drawn(code, 4);
    // 5 percent of the modules: level M corrects 15 percent of the code words.
    const stain = Math.round(Math.sqrt(0.05) * (code.size - 2 * QUIET)) * 4;
    const from = Math.round(side / 2 - stain / 2);
    for (let row = from; row < from + stain; row++) data.fill(0, (row * side + from) * 4, (row * side + from + stain) * 4);
    for (let i = 3; i < data.length; i += 4) data[i] = 255;
    expect(read(data, side, side)?.data).toBe(text);
  });

  it("has a quiet zone", () => {
    const code = qrPath(address(60));
    const { data, side } = drawn(code, 1);
    for (let i = 0; i < side; i++) {
      for (let j = 0; j < QUIET; j++) {
        for (const [x, y] of [[i, j], [j, i], [i, side - 1 - j], [side - 1 - j, i]]) expect(data[(y! * side + x!) * 4]).toBe(255);
      }
    }
  });
});
