/** Which pictures a `<video>` shows. */
import { displayMs } from "./refresh";

/**
 * Calls `picture` for each picture that `video` shows, with its media time in seconds, how many were presented since the one
 * before (some may have passed between two calls), and when it is on the screen, by `performance.now`. Ends where `ended` says so.
 */
export function watchPresented(
  video: HTMLVideoElement,
  ended: () => boolean,
  picture: (mediaS: number, presented: number, shownMs: number) => void,
): void {
  if (typeof video.requestVideoFrameCallback !== "function") {
    let total = 0;
    video.addEventListener("timeupdate", () => {
      const now = video.getVideoPlaybackQuality().totalVideoFrames;
      picture(video.currentTime, now - total, performance.now());
      total = now;
    });
    return;
  }
  let last = 0;
  const next: VideoFrameRequestCallback = (_now, metadata) => {
    if (ended()) return;
    // It counts from the media source's start.
    const presented = metadata.presentedFrames > last ? metadata.presentedFrames - last : 1;
    last = metadata.presentedFrames;
    picture(metadata.mediaTime, presented, displayMs(metadata.expectedDisplayTime, performance.now()));
    video.requestVideoFrameCallback(next);
  };
  video.requestVideoFrameCallback(next);
}
