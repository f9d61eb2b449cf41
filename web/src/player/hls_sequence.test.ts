import { expect, it } from "vitest";
import { DiscontinuityNumbers, FIRST_NUMBER } from "./hls_sequence";

const playlist = (number: number): string => `#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:897761630\n#EXT-X-DISCONTINUITY-SEQUENCE:${number}\n#EXT-X-DISCONTINUITY\n`;

it("counts discontinuities from about the first playlist, for all playlists alike, also for those that begin earlier", () => {
  const numbers = new DiscontinuityNumbers();
  expect(numbers.shorten(playlist(1_795_523_260))).toBe(playlist(FIRST_NUMBER));
  expect(numbers.shorten(playlist(1_795_523_262))).toBe(playlist(FIRST_NUMBER + 2));
  expect(numbers.shorten(playlist(1_795_523_257))).toBe(playlist(FIRST_NUMBER - 3));
  expect(numbers.shorten(playlist(7))).toBe(playlist(0));
});

it("leaves alone what has no such number", () => {
  const text = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nvideo.m3u8\n";
  expect(new DiscontinuityNumbers().shorten(text)).toBe(text);
});
