// Streams of sound for tests: what FFmpeg publishes, and what a page is heard to play.
import assert from "node:assert/strict";
import { findProgram, skip, start, stats, until } from "./support.mjs";

/** What is played: a tone of this frequency, at an eighth of full scale. */
export const TONE_HZ = 1000;

/** How FFmpeg codes sound that is named so. */
export const SOUNDS = {
  aac: ["-c:a", "aac", "-b:a", "128k"],
  // Few bytes a second: FFmpeg packs a third of a second into one PES packet.
  "aac-low": ["-c:a", "aac", "-b:a", "32k", "-ac", "1"],
  opus: ["-c:a", "libopus", "-b:a", "96k"],
  mp3: ["-c:a", "libmp3lame", "-b:a", "128k"],
  mp2: ["-c:a", "mp2", "-b:a", "192k"],
  ac3: ["-c:a", "ac3", "-b:a", "192k"],
  eac3: ["-c:a", "eac3", "-b:a", "192k"],
};

/** FFmpeg that publishes a tone alone. Null where FFmpeg is missing. */
export function publishTone(t, server, name, sound) {
  const ffmpeg = findProgram("ffmpeg");
  if (!ffmpeg) {
    skip(t, "ffmpeg is not installed");
    return null;
  }
  return start(t, ffmpeg, [
    "-v", "warning", "-re", "-f", "lavfi", "-i", `sine=frequency=${TONE_HZ}:sample_rate=48000`, "-ac", "2", ...SOUNDS[sound],
    "-f", "mpegts", "-flush_packets", "1", `${server.origin}/live/${name}.ts`,
  ]);
}

/** Waits until the page plays sound alone, and `moreMs` of it have gone by since; returns the figures. */
export async function sounds(page, moreMs = 3000) {
  const begin = await until("sound alone", async () => {
    const figures = await stats(page);
    return figures?.state === "playing" && figures.soundAlone && figures;
  }, () => stats(page));
  await until(`${moreMs} ms more of sound`, async () => (await stats(page)).soundMs >= begin.soundMs + moreMs, () => stats(page));
  return stats(page);
}

/**
 * Has a page listen to itself, before anything of it runs: an AnalyserNode in front of the loudspeaker of the page's own
 * contexts, and one behind each media element. `window.listened()` answers with the loudest frequency in Hz and the level.
 */
export function listenToItself() {
  const analysers = [];
  const original = AudioNode.prototype.connect;
  const ours = new WeakSet();
  AudioNode.prototype.connect = function (target, ...rest) {
    if (target === this.context.destination && !ours.has(this.context)) {
      const analyser = new AnalyserNode(this.context, { fftSize: 8192 });
      analysers.push(analyser);
      original.call(this, analyser);
    }
    return original.call(this, target, ...rest);
  };
  let tapped = null;
  window.listened = async () => {
    const media = document.querySelector(".picture-place video");
    if (media && !analysers.some(({ context }) => context.state === "running" && !ours.has(context)) && tapped !== media) {
      tapped = media;
      const context = new AudioContext();
      ours.add(context);
      const analyser = new AnalyserNode(context, { fftSize: 8192 });
      const capture = media.captureStream ?? media.mozCaptureStream;
      const source = capture ? context.createMediaStreamSource(capture.call(media)) : context.createMediaElementSource(media);
      original.call(source, analyser);
      if (!capture) original.call(source, context.destination);
      analysers.push(analyser);
      await context.resume();
    }
    let best = { hz: 0, level: 0 };
    for (const analyser of analysers) {
      if (analyser.context.state !== "running") continue;
      const samples = new Float32Array(analyser.fftSize);
      analyser.getFloatTimeDomainData(samples);
      const level = Math.sqrt(samples.reduce((sum, one) => sum + one * one, 0) / samples.length);
      const bins = new Float32Array(analyser.frequencyBinCount);
      analyser.getFloatFrequencyData(bins);
      const bin = bins.reduce((top, value, index) => (value > bins[top] ? index : top), 0);
      if (level >= best.level) best = { hz: (bin * analyser.context.sampleRate) / analyser.fftSize, level };
    }
    return best;
  };
}

/** Waits until the page's loudspeaker gets the tone. */
export async function hearsTone(page) {
  const heard = await until("the tone", async () => {
    const { hz, level } = await page.evaluate(() => window.listened());
    return Math.abs(hz - TONE_HZ) < 20 && level > 0.02 && { hz, level };
  }, async () => [await page.evaluate(() => window.listened()), await stats(page)]);
  // FFmpeg's sine has an amplitude of an eighth; coders and the mix to stereo change it a little.
  assert.ok(heard.level > 0.02 && heard.level < 0.3, JSON.stringify(heard));
  return heard;
}
