import { expect, it } from "vitest";
import { RateMeter } from "./rate";

it("tells the rate of the last seconds", () => {
  const meter = new RateMeter();
  expect(meter.look(0, 0)).toBeNull();
  let rate: number | null = null;
  for (let ms = 250; ms <= 10_000; ms += 250) rate = meter.look(ms, ms * 125);
  expect(rate).toBeCloseTo(1e6, -1);
  for (let ms = 10_250; ms <= 14_000; ms += 250) rate = meter.look(ms, 1_250_000);
  expect(rate).toBe(0);
});

it("begins anew where the count does", () => {
  const meter = new RateMeter();
  meter.look(0, 1e6);
  expect(meter.look(1000, 0)).toBeNull();
});
