import { expect, it } from "vitest";
import { CaptureLine } from "./capture_line";

it("knows the pictures it was told of, and those shortly after", () => {
  const line = new CaptureLine();
  expect(line.at(1)).toBeNull();
  for (let i = 0; i < 50; i++) line.add({ mediaS: 10 + i / 50, captureUs: 1e15 + i * 20_000 });
  expect(line.at(10)).toBe(1e15);
  expect(line.at(10.5)).toBeCloseTo(1e15 + 500_000, -1);
  expect(line.at(10.49)).toBeCloseTo(1e15 + 490_000, -1);
  expect(line.at(9.9)).toBeNull();
  expect(line.at(13)).toBeNull();
});

it("takes the last word on a time, and times in any order", () => {
  const line = new CaptureLine();
  for (const mediaS of [5, 1, 3, 5, 1]) line.add({ mediaS, captureUs: mediaS * 1e6 });
  line.add({ mediaS: 3.0004, captureUs: 42 });
  expect(line.at(3)).toBeCloseTo(42, -3);
  expect(line.at(5)).toBe(5e6);
  expect(line.at(1)).toBe(1e6);
  line.clear();
  expect(line.at(5)).toBeNull();
});

it("tells which picture begins at a time, and none for one between two", () => {
  const line = new CaptureLine();
  for (let i = 0; i < 5; i++) line.add({ mediaS: 10 + i / 5, captureUs: 1e15, number: i });
  line.add({ mediaS: 12, captureUs: 1e15 });
  expect([10, 10.4004, 10.3996, 10.48, 9, 12].map((mediaS) => line.numberAt(mediaS))).toEqual([0, 2, 2, null, null, null]);
});
