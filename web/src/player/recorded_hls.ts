/** Playlists of what was recorded, by hls.js. In the chunk that LL-HLS is in. */
import Hls, { ErrorDetails, ErrorTypes, Events } from "hls.js";

export interface RecordedLibrary {
  /** Where one can go, in seconds of media time; null before the playlist is known. */
  range(): { start: number; end: number } | null;
  /** Whether segments are still added. */
  grows(): boolean;
  /** When the picture at this time was captured, in ms of UTC; null where the playlist does not say. */
  captureMs(mediaS: number): number | null;
  close(): void;
}

export interface RecordedEvents {
  /** What the server answered to a request for a playlist, or null where it did not, or for something else. */
  failed(status: number | null, detail: string): void;
  /** Codecs of the sound; empty: there is none. */
  sound(codecs: string): void;
}

/** A decoder that fails again within this time is not helped by the same means. */
const RECOVER_AGAIN_MS = 5000;

/** A segment that cannot be had is gone past; so many in a row are the server's fault, or the network's. */
const PASSED_MAX = 5;
const SEGMENT_FAILURES: readonly string[] = [ErrorDetails.FRAG_LOAD_ERROR, ErrorDetails.FRAG_LOAD_TIMEOUT, ErrorDetails.FRAG_PARSING_ERROR];
const PLAYLIST_FAILURES: readonly string[] = [ErrorDetails.MANIFEST_LOAD_ERROR, ErrorDetails.LEVEL_LOAD_ERROR, ErrorDetails.AUDIO_TRACK_LOAD_ERROR];

/** Where playing goes on behind a segment that cannot be had, in seconds of media time; null: it does not, after so many. */
export function behindFailed(fragment: { end: number } | null | undefined, details: string, passed: number): number | null {
  if (!fragment || !SEGMENT_FAILURES.includes(details) || passed >= PASSED_MAX) return null;
  return fragment.end + 0.01;
}

/** `startMs`: when the picture was captured that is shown first, in ms of UTC; null: the playlist says where it begins. */
export function openRecorded(video: HTMLVideoElement, url: string, startMs: number | null, events: RecordedEvents): RecordedLibrary | null {
  if (!Hls.isSupported()) return null;
  const hls = new Hls({
    lowLatencyMode: false,
    // CMAF needs no transmuxing, and the page's policy allows no worker out of a string.
    enableWorker: false,
    liveDurationInfinity: false,
    backBufferLength: 60,
    capLevelToPlayerSize: true,
    maxBufferLength: 20,
    // The first picture counts: a segment is enough to begin with.
    startFragPrefetch: true,
  });
  let recoveredMs = -Infinity;
  let passed = 0;
  hls.on(Events.FRAG_BUFFERED, () => {
    passed = 0;
  });
  hls.on(Events.ERROR, (_event, data) => {
    if (!data.fatal) return;
    if (data.type === ErrorTypes.MEDIA_ERROR && performance.now() - recoveredMs > RECOVER_AGAIN_MS) {
      recoveredMs = performance.now();
      hls.recoverMediaError();
      return;
    }
    const behind = behindFailed(data.frag, data.details, passed);
    if (behind !== null) {
      passed += 1;
      if (video.currentTime < behind) video.currentTime = behind;
      hls.startLoad(behind);
      return;
    }
    events.failed(PLAYLIST_FAILURES.includes(data.details) ? (data.response?.code ?? null) : null, data.details);
  });
  hls.on(Events.MANIFEST_PARSED, (_event, data) => {
    events.sound(data.audioTracks[0]?.audioCodec ?? data.levels[0]?.audioCodec ?? (data.audioTracks.length > 0 ? "sound" : ""));
  });
  if (startMs !== null) {
    hls.once(Events.LEVEL_LOADED, (_event, { details }) => {
      const fragment = details.fragments.findLast((one) => one.programDateTime !== null && one.programDateTime <= startMs);
      if (fragment) hls.startLoad(Math.min(fragment.end, fragment.start + (startMs - fragment.programDateTime!) / 1000));
    });
  }
  hls.attachMedia(video);
  hls.loadSource(url);
  const details = () => hls.latestLevelDetails ?? hls.levels[hls.loadLevel]?.details ?? null;
  return {
    range: () => {
      const fragments = details()?.fragments;
      const [first, last] = [fragments?.[0], fragments?.at(-1)];
      return first && last ? { start: first.start, end: last.end } : null;
    },
    grows: () => details()?.live ?? false,
    captureMs: (mediaS) => {
      const fragment = details()?.fragments.findLast((one) => one.start <= mediaS && one.programDateTime !== null);
      return fragment?.programDateTime ? fragment.programDateTime + (mediaS - fragment.start) * 1000 : null;
    },
    close: () => hls.destroy(),
  };
}
