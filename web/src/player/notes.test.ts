import { describe, expect, it } from "vitest";
import type { VideoUnit } from "../media/feed";
import { PictureNotes } from "./notes";

const unit = (ptsUs: number, settlingFrames = 0): VideoUnit => ({ ptsUs, settlingFrames, captureUs: ptsUs + 7 }) as VideoUnit;

describe("PictureNotes", () => {
  it("finds a picture by its time, rounded as it may be, and none where none is near", () => {
    const notes = new PictureNotes();
    for (let i = 0; i < 50; i++) notes.add(unit(i * 20_000), i);
    expect(notes.of((Math.round(0.46 * 90_000) / 90_000) * 1e6)).toMatchObject({ ptsUs: 460_000, captureUs: 460_007, number: 23 });
    expect(notes.of(470_000)).toBeNull();
  });

  it("tells a picture from the grey one half a millisecond before it", () => {
    const notes = new PictureNotes();
    notes.add(unit(99_500, 5), 0);
    notes.add(unit(100_000, 4), 1);
    expect([99_505, 99_990].map((us) => notes.of(us)?.settlingFrames)).toEqual([5, 4]);
  });

  it("forgets", () => {
    const notes = new PictureNotes();
    for (let i = 0; i < 700; i++) notes.add(unit(i * 20_000), i);
    expect(notes.of(0)).toBeNull();
    expect(notes.of(699 * 20_000)).not.toBeNull();
  });
});
