import { expect, it } from "vitest";
import { levelShare } from "./sound_view";

it("shows levels in decibels, from -60 dB to full scale", () => {
  expect([0, 0.0005, 1].map(levelShare)).toEqual([0, 0, 1]);
  expect(levelShare(0.0316)).toBeCloseTo(0.5, 2);
  expect(levelShare(4)).toBe(1);
});
