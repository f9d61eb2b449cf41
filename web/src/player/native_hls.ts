/** HLS by the browser itself: Safari, on phones above all, where there is nothing to append to. */
import { browserName } from "./lack";
import type { Library, OpenLibrary } from "./library";

export const HLS_TYPE = "application/vnd.apple.mpegurl";

/** Whether a video element plays HLS without help. */
export function nativeHls(): boolean {
  return document.createElement("video").canPlayType(HLS_TYPE) !== "";
}

/** Safari's keeping of the low-latency distance is its own; this is where its live edge is from where one may seek. */
export const openNative: OpenLibrary = (video, url, _wish, events): Library => {
  const failed = (): void => {
    const code = video.error?.code;
    if (code === MediaError.MEDIA_ERR_DECODE) events.trouble("lost", "the picture could not be decoded");
    else if (code === MediaError.MEDIA_ERR_SRC_NOT_SUPPORTED) void refused();
    else events.trouble("lost", null);
  };
  /** Browsers have one error for a playlist that is not there and for one that they do not play. */
  const refused = async (): Promise<void> => {
    const isThere = await fetch(url, { cache: "no-store" }).then((response) => response.ok, () => false);
    if (isThere) events.trouble("unplayable", `${browserName(navigator.userAgent)} does not play this stream's playlist.`);
    else events.trouble("lost", null);
  };
  const begun = (): void => events.sound("sound");
  video.addEventListener("error", failed);
  video.addEventListener("loadedmetadata", begun);
  video.src = url;

  const window = () => {
    const { seekable } = video;
    if (seekable.length === 0) return null;
    const last = seekable.length - 1;
    return { start: seekable.start(0), live: seekable.end(last) };
  };
  /** What `#EXT-X-PROGRAM-DATE-TIME` says of time zero; only Safari tells. */
  const startMs = (): number | null => {
    const date = (video as { getStartDate?: () => Date }).getStartDate?.();
    const ms = date?.getTime() ?? NaN;
    return Number.isFinite(ms) ? ms : null;
  };
  return {
    playsItself: false,
    window,
    latency: () => {
      const now = window();
      return now && Math.max(0, now.live - video.currentTime);
    },
    target: () => null,
    seek: (mediaS) => (video.currentTime = mediaS),
    goLive: () => {
      const now = window();
      if (now) video.currentTime = now.live;
    },
    captureUs: (mediaS) => {
      const start = startMs();
      return start === null ? null : (start + mediaS * 1000) * 1000;
    },
    quality: () => null,
    offersPictures: () => video.videoWidth > 0,
    // The browser chooses, and says nothing of it.
    choose: () => undefined,
    close: () => {
      video.removeEventListener("error", failed);
      video.removeEventListener("loadedmetadata", begun);
      video.removeAttribute("src");
      video.load();
    },
  };
};
