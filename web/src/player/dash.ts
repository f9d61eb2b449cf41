/** LL-DASH by dash.js. A chunk of its own: only who chooses it loads it. */
import { MediaPlayer, type MediaPlayerEvent } from "dashjs";
import { codecsOf, listedDelay } from "./dash_list";
import { browserName, codecsLack } from "./lack";
import type { Library, OpenLibrary } from "./library";

/** dash.js's codes for what it could not load: manifest, and an answer without one. */
const MANIFEST_CODES = new Set([10, 11, 25, 31]);
const NO_MEDIA_SOURCE = 23;
/** Nothing of the manifest can be played: dash.js leaves out what the browser has no decoder for. */
const UNPLAYABLE_CODES = new Set([32, 34, 35]);

/** dash.js's event that says by how much its clock is wrong, in ms. */
const TIME_OFFSET = "updateTimeSyncOffset" as unknown as MediaPlayerEvent;
const CLOCK_MS = 1000;

export const openDash: OpenLibrary = (video, url, { delayS, clockOffsetMs, version }, events): Library => {
  const player = MediaPlayer().create();
  player.initialize();
  player.updateSettings({
    debug: { logLevel: 0 },
    streaming: {
      delay: { liveDelay: delayS ?? NaN, useSuggestedPresentationDelay: true },
      // The page does it (`follow`), for both libraries in the same way.
      liveCatchup: { enabled: false },
      // Nothing of this page is to stay in the browser.
      lastBitrateCachingInfo: { enabled: false },
      lastMediaSettingsCachingInfo: { enabled: false },
      buffer: { bufferToKeep: 30, lowLatencyStallThreshold: 0.02 },
      scheduling: { lowLatencyTimeout: 0 },
      // No more pixels than are shown.
      abr: { limitBitrateByPortal: true },
      // The page's clock is told to it below. Its own measures one exchange while it is starting, which is off by
      // hundreds of milliseconds on a busy machine, and asks somebody else's server (time.akamai.com) first.
      utcSynchronization: { enabled: false },
    },
  });
  let ready = false;
  /** What the manifest says of its pictures, or of its sound where there are none. */
  let codecs: string[] = [];
  /** What it said when it was opened; null before. */
  let hasPictures: boolean | null = null;
  // Not at once: dash.js goes on with what it has begun after it has told of an error.
  const lacks = (): void => void window.setTimeout(() => events.trouble("unplayable", codecsLack(codecs, browserName(navigator.userAgent))));
  const choose = (name: string | null): void => {
    player.updateSettings({ streaming: { abr: { autoSwitchBitrate: { video: name === null } } } });
    if (name !== null && player.getRepresentationsByType("video").some((one) => one.id === name)) {
      player.setRepresentationForTypeById("video", name, true);
    }
  };
  player.on(MediaPlayer.events.ERROR, (event: { error?: { code?: number; message?: string; data?: { response?: { status?: number } } } }) => {
    const code = event.error?.code ?? 0;
    if (code === NO_MEDIA_SOURCE) events.trouble("unsupported", "This browser has no Media Source Extensions, which LL-DASH needs.");
    else if (UNPLAYABLE_CODES.has(code)) lacks();
    else if (MANIFEST_CODES.has(code)) events.trouble("absent", null);
    else events.trouble("lost", event.error?.message ?? null);
  });
  player.on(MediaPlayer.events.PLAYBACK_NOT_ALLOWED, () => events.needsGesture());
  player.on(MediaPlayer.events.STREAM_INITIALIZED, () => {
    ready = true;
    if (version !== null) choose(version);
    events.sound(player.getCurrentTrackFor("audio")?.codec ?? "");
  });
  const tellTime = (): void => {
    const offset = clockOffsetMs();
    if (offset !== null) player.trigger(TIME_OFFSET, { offset }, {});
  };
  let listed: boolean | null = null;
  player.on(MediaPlayer.events.MANIFEST_LOADED, ({ data }: { data: object }) => {
    tellTime();
    if (hasPictures === null) {
      const pictures = codecsOf(data, "video");
      hasPictures = pictures.length > 0;
      codecs = hasPictures ? pictures : codecsOf(data, "audio");
      // dash.js leaves out what the browser cannot play, and would play the sound of the rest.
      if (hasPictures && !pictures.some((codec) => MediaSource.isTypeSupported(`video/mp4; codecs="${codec}"`))) lacks();
    }
    const leastS = listedDelay(data);
    if (listed === false && leastS !== null) {
      // Playback is further ahead than the list goes from now on.
      queueMicrotask(() => events.trouble("lost", "segments are of odd lengths from now on"));
      return;
    }
    listed ??= leastS !== null;
    if (leastS !== null) player.updateSettings({ streaming: { delay: { liveDelay: Math.max(delayS ?? 0, leastS) } } });
  });
  const timer = window.setInterval(tellTime, CLOCK_MS);
  player.attachView(video);
  player.setAutoPlay(true);
  player.attachSource(url);

  /** dash.js throws where it is asked too early, or after it has given up by itself. */
  const asked = <T>(answer: () => T): T | null => (ready && player.isReady() ? answer() : null);
  return {
    playsItself: true,
    window: () => asked(() => {
      const window = player.getDvrWindow();
      const isKnown = window && window.end > window.start;
      return isKnown ? { start: window.start, live: window.end - player.getTargetLiveDelay() } : null;
    }),
    latency: () => asked(() => player.getCurrentLiveLatency()),
    target: () => asked(() => player.getTargetLiveDelay()),
    seek: (mediaS) => asked(() => player.seekToPresentationTime(mediaS)),
    goLive: () => asked(() => player.seekToOriginalLive()),
    // Chunks say it themselves, in `prft`.
    captureUs: () => null,
    quality: () => asked(() => ({ bitrateBps: player.getCurrentRepresentationForType("video")?.bandwidth ?? null })),
    offersPictures: () => hasPictures === true,
    choose: (name) => asked(() => choose(name)),
    close: () => {
      window.clearInterval(timer);
      player.destroy();
    },
  };
};
