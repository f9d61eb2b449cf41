import { describe, expect, it } from "vitest";
import { isSoundAlone } from "../player/player";
import { AUDIO_PID, TsBuilder, VIDEO_PID, ended, hex, pes, picture } from "../testing/ts_builder";
import { concat } from "./bits";
import { type AudioUnit, Feed } from "./feed";
import type { Track } from "./ts";

function feed(plays?: (track: Track) => boolean) {
  const audio: AudioUnit[] = [];
  const tracks: (readonly Track[])[] = [];
  let pictures = 0;
  const made = new Feed({
    tracks: (t) => tracks.push(t),
    videoConfig: () => undefined,
    video: () => (pictures += 1),
    audio: (u) => audio.push(u),
  }, plays);
  return { feed: made, audio, tracks, pictures: () => pictures };
}

function frame(head: string, bytes: number): Uint8Array {
  const made = new Uint8Array(bytes).fill(0x11);
  made.set(hex(head));
  return made;
}

/** 24 ms at 48 kHz, layer III; 32 ms at 48 kHz, AC-3. */
const MP3 = frame("fffb9464", 384);
const AC3 = frame("0b7700001440434000", 768);
const SECOND_PID = 0x102;

describe("sound alone", () => {
  it("is cut and timed without any picture, for each codec that comes so", () => {
    for (const [type, descriptors, codec, name, bytes, stepUs] of [
      [0x03, [], "mpeg", "MP3", MP3, 24_000], [0x04, [], "mpeg", "MP3", MP3, 24_000], [0x81, [], "ac3", "AC-3", AC3, 32_000],
      [0x06, [0x6a, 1, 0], "ac3", "AC-3", AC3, 32_000], [0x06, [5, 4, 0x41, 0x43, 0x2d, 0x33], "ac3", "AC-3", AC3, 32_000],
    ] as const) {
      const b = new TsBuilder();
      const { feed: f, audio, tracks } = feed();
      f.push(b.program([[type, AUDIO_PID, descriptors]]));
      expect(tracks.at(-1)).toMatchObject([{ kind: "audio", codec }]);
      expect(isSoundAlone(tracks.at(-1)!)).toBe(true);
      // Two frames and a piece, and the rest with the next: as senders pack them.
      const cut = 100;
      f.push(b.packets(AUDIO_PID, [pes(0xc0, 900, 900, concat([bytes, bytes, bytes.subarray(0, cut)]), true)]));
      f.push(b.packets(AUDIO_PID, [pes(0xc0, 900 + (3 * stepUs * 9) / 100, 900 + (3 * stepUs * 9) / 100, concat([bytes.subarray(cut), bytes]), true)]));
      expect(audio.map((u) => u.ptsUs - audio[0]!.ptsUs)).toEqual([0, 1, 2, 3].map((n) => n * stepUs));
      expect(audio.map((u) => u.config.name)).toEqual([name, name, name, name]);
      expect(audio.map((u) => u.reset)).toEqual([true, false, false, false]);
    }
  });

  it("is what is left where the pictures go, and no more where they come back", () => {
    const b = new TsBuilder();
    const { feed: f, audio, tracks, pictures } = feed();
    const sound = (n: number): Uint8Array => b.packets(AUDIO_PID, [pes(0xc0, n * 2160, n * 2160, MP3, true)]);
    const show = (n: number): Uint8Array => b.packets(VIDEO_PID, [pes(0xe0, n * 2160, n * 2160, ended(picture(n % 2 === 0)), true)], { random: n % 2 === 0 });
    f.push(b.program([[0x1b, VIDEO_PID], [0x03, AUDIO_PID]]));
    for (let n = 0; n < 4; n++) f.push(concat([show(n), sound(n)]));
    expect([isSoundAlone(tracks.at(-1)!), pictures()]).toEqual([false, 4]);
    f.push(b.program([[0x03, AUDIO_PID]], { version: 1 }));
    for (let n = 4; n < 8; n++) f.push(sound(n));
    expect(isSoundAlone(tracks.at(-1)!)).toBe(true);
    f.push(b.program([[0x1b, VIDEO_PID], [0x03, AUDIO_PID]], { version: 2 }));
    for (let n = 8; n < 12; n++) f.push(concat([show(n), sound(n)]));
    expect([isSoundAlone(tracks.at(-1)!), pictures()]).toEqual([false, 8]);
    expect(audio.map((u) => (u.ptsUs - audio[0]!.ptsUs) / 24_000)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  });

  it("that an engine cannot play is left for another track, or told as unsupported", () => {
    const b = new TsBuilder();
    const deaf = new Set<string>();
    const { feed: f, audio, tracks } = feed((track) => !deaf.has(track.codec));
    f.push(b.program([[0x81, AUDIO_PID], [0x03, SECOND_PID]]));
    const both = (n: number): Uint8Array => concat([
      b.packets(AUDIO_PID, [pes(0xbd, n * 2880, n * 2880, AC3, true)]), b.packets(SECOND_PID, [pes(0xc0, n * 2880, n * 2880, MP3, true)]),
    ]);
    f.push(both(0));
    deaf.add("ac3");
    f.chooseAgain();
    f.push(both(1));
    expect(audio.map((u) => [u.config.name, u.reset])).toEqual([["AC-3", true], ["MP3", true]]);
    expect(tracks.at(-1)!.map((track) => track.codec)).toEqual(["unsupported", "mpeg"]);
    deaf.add("mpeg");
    f.chooseAgain();
    expect(isSoundAlone(tracks.at(-1)!)).toBe(false);
    f.push(both(2));
    expect(audio).toHaveLength(2);
  });
});
