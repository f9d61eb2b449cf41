import { describe, expect, it } from "vitest";
import { Follower, Patience, jump, standing, standingText } from "./follow";

describe("the place in the window", () => {
  it("counts from live into the past", () => {
    expect(standing({ start: 10, live: 70 }, 55)).toEqual({ earliest: -60, position: -15 });
    expect(standing({ start: 10, live: 70 }, 71)).toEqual({ earliest: -60, position: 0 });
    expect(standing({ start: 10, live: 70 }, 2)).toEqual({ earliest: -60, position: -60 });
    expect(standing({ start: 71, live: 70 }, 70)).toEqual({ earliest: 0, position: 0 });
  });

  it("is moved by jumps, up to live and down to the window's beginning", () => {
    const at = (position: number) => ({ earliest: -60, position });
    expect(jump(at(0), -5)).toBe(-5);
    expect(jump(at(-20), 5)).toBe(-15);
    expect(jump(at(-5), 5)).toBeNull();
    expect(jump(at(-57), -5)).toBe(-58);
    expect(jump(at(-20), -1000)).toBe(-58);
    expect(jump({ earliest: 0, position: 0 }, -5)).toBeNull();
  });

  it("is told in words", () => {
    expect(standingText(0)).toBe("Live");
    expect(standingText(-1)).toBe("1 second behind live");
    expect(standingText(-12.4)).toBe("12 seconds behind live");
  });
});

/** Steers for `seconds`, ten times each; what is played faster comes nearer. */
function run(follower: Follower, behindS: number, bufferS: number, targetS: number, seconds: number): { behindS: number; rates: number[]; jumps: number } {
  const rates: number[] = [];
  let jumps = 0;
  for (let step = 0; step < seconds * 10; step++) {
    const order = follower.steer({ nowMs: step * 100, behindS, targetS, bufferS });
    const nearer = "rate" in order ? (order.rate - 1) * 0.1 : order.jumpS;
    if ("rate" in order) rates.push(order.rate);
    else jumps += 1;
    behindS -= nearer;
    bufferS -= nearer;
  }
  return { behindS, rates, jumps };
}

describe("Follower", () => {
  it("comes to the target and stays there at the normal rate", () => {
    const { behindS, rates, jumps } = run(new Follower(), 0.75, 0.7, 0.6, 30);
    expect(Math.abs(behindS - 0.6)).toBeLessThan(0.05);
    expect(jumps).toBe(0);
    expect(rates.slice(-50).every((rate) => rate === 1)).toBe(true);
  });

  it("is live within three seconds of its beginning, where a jump would be too small to make", () => {
    const { behindS, jumps } = run(new Follower(), 0.78, 0.7, 0.6, 3);
    expect(jumps).toBe(0);
    expect(Math.abs(behindS - 0.6)).toBeLessThan(0.05);
  });

  it("leaves out what is buffered when it begins, once", () => {
    const { behindS, jumps } = run(new Follower(), 1.6, 1.5, 0.6, 20);
    expect(jumps).toBe(1);
    expect(Math.abs(behindS - 0.6)).toBeLessThan(0.05);
  });

  it("jumps where it is far behind, at any time", () => {
    const follower = new Follower();
    run(follower, 0.6, 0.5, 0.6, 5);
    let jumped = false;
    for (let ms = 5000; ms < 7000; ms += 100) jumped ||= "jumpS" in follower.steer({ nowMs: ms, behindS: 6, targetS: 0.6, bufferS: 0.2 });
    expect(jumped).toBe(true);
  });

  it("does not hurry on an empty buffer", () => {
    const { rates } = run(new Follower(), 1.5, 0.03, 0.6, 3);
    expect(Math.max(...rates)).toBeLessThanOrEqual(1);
  });

  it("plays more slowly where it is too near", () => {
    expect(run(new Follower(), 0.3, 0.2, 0.6, 1).rates.at(-1)).toBeLessThan(1);
  });

  it("does not follow the saw-tooth of arriving parts", () => {
    const follower = new Follower();
    const rates = Array.from({ length: 60 }, (_, step) => follower.steer({
      nowMs: step * 100, behindS: 0.6 + (step % 2) * 0.1, targetS: 0.6, bufferS: 0.4,
    })).map((order) => ("rate" in order ? order.rate : 0));
    expect(new Set(rates)).toEqual(new Set([1]));
  });
});

describe("Patience", () => {
  it("grows with stalls and goes again when all is well", () => {
    const patience = new Patience();
    expect(patience.relax(0)).toBe(0);
    patience.stalled(1000);
    patience.stalled(2000);
    const grown = patience.relax(2000);
    expect(grown).toBeGreaterThan(0.1);
    for (let ms = 2000; ms < 600_000; ms += 1000) patience.relax(ms);
    expect(patience.extraS).toBe(0);
  });

  it("has an end", () => {
    const patience = new Patience();
    for (let i = 0; i < 100; i++) patience.stalled(i);
    expect(patience.extraS).toBeLessThanOrEqual(1);
  });
});
