import { describe, expect, it } from "vitest";
import { drawBarcode } from "../dev/barcode.mjs";
import { ageUs, cellSize, crc16, readBarcode } from "./barcode";

describe("barcode", () => {
  it("has the CRC that its standard's check value says", () => {
    expect(crc16(new TextEncoder().encode("123456789"))).toBe(0x29b1);
  });

  it("has cells by the picture's size", () => {
    expect([cellSize(1920, 1080), cellSize(3840, 2160), cellSize(1280, 720), cellSize(320, 180), cellSize(200, 120), cellSize(120, 90)])
      .toEqual([16, 32, 16, 16, 8, 0]);
  });

  it("is read back from luma, and from RGBA, at each size", () => {
    for (const [width, height] of [[1280, 720], [320, 180], [200, 120], [3840, 2160]] as const) {
      const luma = new Uint8Array(width * height).fill(100);
      const captureUs = 1_790_000_000_123_456;
      drawBarcode(luma, width, height, 0xabcdef, captureUs);
      const cell = cellSize(width, height);
      const expected = { frame: 0xabcdef, captureUs: captureUs % 2 ** 40 };
      expect(readBarcode(luma, cell, width)).toEqual(expected);
      const rgba = new Uint8ClampedArray(20 * cell * 4 * cell * 4);
      for (let y = 0; y < 4 * cell; y++) {
        for (let x = 0; x < 20 * cell; x++) rgba.fill(luma[y * width + x]!, (y * 20 * cell + x) * 4, (y * 20 * cell + x) * 4 + 3);
      }
      expect(readBarcode(rgba, cell, 20 * cell * 4, 4, 1)).toEqual(expected);
    }
  });

  it("is read from a faint picture, and not from a damaged or an empty one", () => {
    const luma = new Uint8Array(640 * 360);
    drawBarcode(luma, 640, 360, 7, 42_000_000);
    const faint = luma.map((v) => 90 + v / 4);
    expect(readBarcode(faint, 16, 640)?.captureUs).toBe(42_000_000);
    // The first cell is black in any frame number below 2^23.
    for (let y = 0; y < 16; y++) luma.fill(235, y * 640, y * 640 + 16);
    expect(readBarcode(luma, 16, 640)).toBeNull();
    expect(readBarcode(new Uint8Array(640 * 360).fill(16), 16, 640)).toBeNull();
    expect(readBarcode(new Uint8Array(10), 16, 640)).toBeNull();
  });

  it("tells an age over the wrap of 40 bits", () => {
    expect(ageUs(2 ** 40 + 500, 2 ** 40 - 500)).toBe(1000);
    expect(ageUs(1000, 1500)).toBe(-500);
  });
});
