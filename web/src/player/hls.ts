/** LL-HLS by hls.js. A chunk of its own: only who chooses it loads it. */
import Hls, {
  ErrorDetails, ErrorTypes, Events, type LoaderCallbacks, type LoaderConfiguration, type LoaderContext, type PlaylistLoaderConstructor,
  XhrLoader,
} from "hls.js";
import { DiscontinuityNumbers } from "./hls_sequence";
import { browserName, codecsLack, undecoded } from "./lack";
import type { Library, OpenLibrary } from "./library";

export { openRecorded } from "./recorded_hls";

/** A decoder that fails again within this time is not helped by the same means. */
const RECOVER_AGAIN_MS = 5000;
/** The browser has no decoder for what the playlist has. */
const INCOMPATIBLE: ReadonlySet<string> = new Set([
  ErrorDetails.MANIFEST_INCOMPATIBLE_CODECS_ERROR, ErrorDetails.BUFFER_INCOMPATIBLE_CODECS_ERROR, ErrorDetails.BUFFER_ADD_CODEC_ERROR,
]);
const PICTURES = /^(avc|hvc|hev|av01|vp)/i;

/** A loader of playlists that hands them on with small discontinuity numbers. */
function playlistLoader(numbers: DiscontinuityNumbers): PlaylistLoaderConstructor {
  const Loader = class extends XhrLoader {
    override load(context: LoaderContext, config: LoaderConfiguration, callbacks: LoaderCallbacks<LoaderContext>): void {
      super.load(context, config, {
        ...callbacks,
        onSuccess: (response, stats, loaded, details) => {
          const { data } = response;
          callbacks.onSuccess(typeof data === "string" ? { ...response, data: numbers.shorten(data) } : response, stats, loaded, details);
        },
      });
    }
  };
  // hls.js declares its own loader of files and its loader of playlists as two types; they are one class.
  return Loader as unknown as PlaylistLoaderConstructor;
}

export const openHls: OpenLibrary = (video, url, { delayS, version }, events): Library => {
  const hls = new Hls({
    lowLatencyMode: true,
    pLoader: playlistLoader(new DiscontinuityNumbers()),
    // CMAF needs no transmuxing, and the page's policy allows no worker out of a string.
    enableWorker: false,
    // hls.js catches up only with more than a second in its buffer, which is more than the whole delay here: the
    // page does it (`follow`).
    maxLiveSyncPlaybackRate: 1,
    liveSyncOnStallIncrease: 0,
    liveDurationInfinity: true,
    backBufferLength: 70,
    // No more pixels than are shown.
    capLevelToPlayerSize: true,
    maxBufferLength: 12,
    ...(delayS === null ? {} : { liveSyncDuration: delayS }),
  });
  /** What the playlist says of its pictures and its sound. */
  let codecs: string[] = [];
  const lacks = (): void => {
    const lacking = undecoded(codecs, (codec) => MediaSource.isTypeSupported(`${PICTURES.test(codec) ? "video" : "audio"}/mp4; codecs="${codec}"`));
    events.trouble("unplayable", codecsLack(lacking, browserName(navigator.userAgent)));
  };
  hls.on(Events.MANIFEST_LOADED, (_event, { levels }) => {
    codecs = levels.flatMap(({ videoCodec, audioCodec }) => [videoCodec, audioCodec].flatMap((one) => one?.split(",") ?? []));
  });
  let recoveredMs = -Infinity;
  hls.on(Events.ERROR, (_event, data) => {
    if (!data.fatal) return;
    const status = data.response?.code ?? 0;
    if (INCOMPATIBLE.has(data.details)) lacks();
    else if (data.type === ErrorTypes.MEDIA_ERROR && performance.now() - recoveredMs > RECOVER_AGAIN_MS) {
      recoveredMs = performance.now();
      hls.recoverMediaError();
    } else if (status === 404) events.trouble("absent", null);
    else if (data.type === ErrorTypes.NETWORK_ERROR) events.trouble("lost", status >= 400 ? `the server answered ${status}` : null);
    else events.trouble("lost", data.details);
  });
  /** The level of a ladder's version, whose name is in its address; -1: hls.js chooses. */
  const levelOf = (name: string | null): number =>
    name === null ? -1 : hls.levels.findIndex((level) => level.url.some((address) => new URL(address, url).pathname.includes(`/${name}/`)));
  hls.on(Events.MANIFEST_PARSED, (_event, data) => {
    // hls.js leaves out what the browser cannot play, and would play the sound of the rest.
    const hadPictures = codecs.some((codec) => PICTURES.test(codec));
    if (hadPictures && !data.levels.some(({ videoCodec }) => videoCodec)) {
      queueMicrotask(lacks);
      return;
    }
    const level = levelOf(version);
    if (level >= 0) hls.loadLevel = level;
    events.sound(data.audioTracks[0]?.audioCodec ?? data.levels[0]?.audioCodec ?? (data.audioTracks.length > 0 ? "sound" : ""));
  });
  if (Hls.isSupported()) {
    hls.attachMedia(video);
    hls.loadSource(url);
  } else queueMicrotask(() => events.trouble("unsupported", "This browser has no Media Source Extensions, which LL-HLS needs here."));

  const details = () => hls.latestLevelDetails;
  return {
    playsItself: false,
    window: () => {
      const live = hls.liveSyncPosition;
      const first = details()?.fragments[0];
      return live === null || !first ? null : { start: first.start, live };
    },
    latency: () => (details() ? hls.latency : null),
    target: () => hls.targetLatency,
    seek: (mediaS) => (video.currentTime = mediaS),
    goLive: () => {
      const live = hls.liveSyncPosition;
      if (live !== null) video.currentTime = live;
    },
    captureUs: (mediaS) => {
      const fragment = details()?.fragments.findLast((one) => one.start <= mediaS && one.programDateTime !== null);
      return fragment?.programDateTime ? (fragment.programDateTime + (mediaS - fragment.start) * 1000) * 1000 : null;
    },
    quality: () => {
      const level = hls.levels[hls.currentLevel];
      return level ? { bitrateBps: level.bitrate || null } : null;
    },
    offersPictures: () => codecs.some((codec) => PICTURES.test(codec)),
    choose: (name) => {
      hls.nextLevel = levelOf(name);
    },
    close: () => hls.destroy(),
  };
};
