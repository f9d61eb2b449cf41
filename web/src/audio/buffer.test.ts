import { describe, expect, it } from "vitest";
import { PlayoutBuffer } from "./buffer";

const RATE = 48_000;
const BLOCK = 128;
const FRAME = 1024;

/** Plays a sine for so many seconds that comes in bursts of so many frames, the first seconds of it at once; a line a second. */
function run(seconds: number, burst: number, backlogS = 0, jitterMs = 0) {
  const buffer = new PlayoutBuffer(RATE);
  const out = new Float32Array(BLOCK);
  let sent = 0;
  let seed = 1;
  const frame = (): void => {
    const plane = Float32Array.from({ length: FRAME }, (_, i) => Math.sin(((sent * FRAME + i) * 2 * Math.PI * 440) / RATE) * 0.5);
    buffer.push([plane], (sent * FRAME * 1e6) / RATE + 10e6);
    sent += 1;
  };
  const lines = [];
  // Frames that were there before the viewer came.
  const before = Math.round((backlogS * RATE) / FRAME);
  for (let n = 0; n < before; n++) frame();
  let due = 0;
  for (let now = 0; now < seconds * RATE; now += BLOCK) {
    while (now >= due) {
      for (let n = 0; n < burst; n++) frame();
      seed = (seed * 16807) % 2147483647;
      due = (sent - before) * FRAME + ((seed % 1000) / 1000) * jitterMs * (RATE / 1000);
    }
    buffer.pull([out]);
    if (now % RATE < BLOCK) lines.push(buffer.report());
  }
  return { lines, last: buffer.report() };
}

describe("PlayoutBuffer", () => {
  it("holds 70 ms of sound that comes evenly, from the first second on, whatever the backlog", () => {
    for (const backlogS of [0, 1.5]) {
      const { lines, last } = run(10, 1, backlogS);
      expect(last.underruns).toBe(0);
      expect(last.targetMs).toBeCloseTo(70, -1);
      for (const line of lines.slice(2)) expect(line.fillMs).toBeLessThan(110);
      expect(lines.at(-1)!.level).toBeCloseTo(0.5 / Math.SQRT2, 1);
    }
  });

  it("plays sound that comes in bursts of a third of a second without a gap, once it knows them", () => {
    const { lines, last } = run(30, 16, 1.5);
    expect(last.underruns).toBeLessThanOrEqual(2);
    expect(lines[5]!.underruns).toBe(last.underruns);
    expect(last.playedMs).toBeGreaterThan(28_000);
    expect(last.targetMs).toBeLessThan(500);
  });

  it("keeps up with a line that is not even", () => {
    const { lines, last } = run(30, 2, 0.5, 60);
    expect(last.underruns - lines[10]!.underruns).toBeLessThanOrEqual(1);
    expect(last.fillMs).toBeLessThan(400);
  });

  it("goes on where the clock of the stream jumps", () => {
    const buffer = new PlayoutBuffer(RATE);
    const out = new Float32Array(BLOCK);
    const play = (fromUs: number, frames: number): void => {
      for (let n = 0; n < frames; n++) {
        buffer.push([new Float32Array(FRAME).fill(0.25)], fromUs + (n * FRAME * 1e6) / RATE);
        for (let i = 0; i < FRAME / BLOCK; i++) buffer.pull([out]);
      }
    };
    play(10e6, 100);
    play(90e6, 100);
    const { targetMs, underruns, ptsUs } = buffer.report();
    expect([targetMs < 110, underruns]).toEqual([true, 0]);
    expect(ptsUs).toBeGreaterThan(90e6);
  });
});
