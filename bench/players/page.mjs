// What runs in the browser: one player of one stream, watched by what its video element does.

/**
 * Plays `url` for `seconds` with `player` ("hls", "dash" or "shaka", whose script is in the page) and tells what was seen. Stops
 * and jumps are the element's own, whatever the player says of itself.
 */
export async function watch({ player, url, seconds, settleMs, patienceMs }) {
  /** No longer than this is no stop: timers of a busy page are late, too. */
  const STOP_MS = 400;
  /** What the position may gain on the clock from one look to the next, in seconds. */
  const JUMP_S = 0.4;
  const LOOK_MS = 100;
  const said = {};
  const say = (what) => (said[what] = (said[what] ?? 0) + 1);
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const video = document.createElement("video");
  video.muted = true;
  document.body.replaceChildren(video);
  const began = performance.now();
  let latency = () => null;
  let close = () => {};
  if (player === "hls") {
    const hls = new Hls({ lowLatencyMode: true });
    hls.on(Hls.Events.ERROR, (_, error) => say(error.fatal ? `${error.details}, fatal` : error.details));
    hls.loadSource(url);
    hls.attachMedia(video);
    latency = () => hls.latency;
    close = () => hls.destroy();
  } else if (player === "dash") {
    const dash = dashjs.MediaPlayer().create();
    const { events } = dashjs.MediaPlayer;
    dash.on(events.ERROR, (error) => say(`error ${error.error?.code ?? error.error}: ${error.error?.message ?? ""}`));
    dash.on(events.PLAYBACK_STALLED, () => say("stalled"));
    dash.initialize(video, url, true);
    latency = () => dash.getCurrentLiveLatency();
    close = () => dash.destroy();
  } else {
    shaka.polyfill.installAll();
    const own = new shaka.Player();
    await own.attach(video);
    own.configure({ streaming: { lowLatencyMode: true } });
    for (const what of ["gapjumped", "stalldetected"]) own.addEventListener(what, () => say(what));
    own.addEventListener("error", (event) => say(`error ${event.detail.code}`));
    await own.load(url);
    latency = () => own.getStats().liveLatency;
    close = () => own.destroy();
  }
  // dash.js plays by itself, and refreshes its manifest only where it has seen the element begin.
  if (player !== "dash") video.play().catch(() => {});
  while (video.currentTime === 0 || video.readyState < 3 || video.paused) {
    if (performance.now() - began > patienceMs) {
      await close();
      return { startMs: null, said };
    }
    await sleep(20);
  }
  const startMs = Math.round(performance.now() - began);
  await sleep(settleMs);
  for (const what of Object.keys(said)) delete said[what];
  const stops = [];
  const jumps = [];
  const [start, position] = [performance.now(), video.currentTime];
  const framesBefore = video.getVideoPlaybackQuality();
  let [moved, last, lastMs] = [start, position, start];
  while (performance.now() - start < seconds * 1000) {
    await sleep(LOOK_MS);
    const [now, at] = [performance.now(), video.currentTime];
    if (at - last - (now - lastMs) / 1000 > JUMP_S || at < last) jumps.push(Number((at - last).toFixed(2)));
    if (at !== last) {
      if (now - moved > STOP_MS + LOOK_MS) stops.push(Math.round(now - moved));
      moved = now;
    }
    [last, lastMs] = [at, now];
  }
  if (performance.now() - moved > STOP_MS + LOOK_MS) stops.push(Math.round(performance.now() - moved));
  const frames = video.getVideoPlaybackQuality();
  const holes = [];
  for (let i = 1; i < video.buffered.length; i++) {
    const [from, to] = [video.buffered.end(i - 1), video.buffered.start(i)];
    if (to > position && from < last + 10) holes.push(Number((to - from).toFixed(3)));
  }
  const played = (last - position) / ((lastMs - start) / 1000);
  const result = {
    startMs, stops, jumps, holes, said,
    played: Number(played.toFixed(3)),
    latencyS: Number((latency() ?? NaN).toFixed(2)),
    frames: frames.totalVideoFrames - framesBefore.totalVideoFrames,
    dropped: frames.droppedVideoFrames - framesBefore.droppedVideoFrames,
  };
  await close();
  return result;
}

/**
 * Fetches the whole of `url`, a stream of `seconds` that has ended, with `player`, and tells which stretches of it the video element
 * has then. It gives up where nothing more has come for `patienceMs`.
 */
export async function fetchWhole({ player, url, seconds, patienceMs }) {
  const ALL_S = 10 * seconds;
  const said = {};
  const say = (what) => (said[what] = (said[what] ?? 0) + 1);
  const video = document.createElement("video");
  video.muted = true;
  document.body.replaceChildren(video);
  const began = performance.now();
  let close = () => {};
  if (player === "hls") {
    const hls = new Hls({ maxBufferLength: ALL_S, maxMaxBufferLength: ALL_S, maxBufferSize: 1e9, startPosition: 0 });
    hls.on(Hls.Events.ERROR, (_, error) => say(error.fatal ? `${error.details}, fatal` : error.details));
    hls.loadSource(url);
    hls.attachMedia(video);
    close = () => hls.destroy();
  } else if (player === "dash") {
    const dash = dashjs.MediaPlayer().create();
    dash.updateSettings({
      streaming: {
        buffer: {
          bufferTimeDefault: ALL_S, bufferTimeAtTopQuality: ALL_S, bufferTimeAtTopQualityLongForm: ALL_S, bufferToKeep: ALL_S, bufferPruningInterval: ALL_S,
        },
      },
    });
    dash.on(dashjs.MediaPlayer.events.ERROR, (error) => say(`error ${error.error?.code ?? error.error}: ${error.error?.message ?? ""}`));
    // At the very beginning dash.js takes the end of all segments for a gap, and seeks to it.
    dash.initialize(video, url, true);
    close = () => dash.destroy();
  } else {
    shaka.polyfill.installAll();
    const own = new shaka.Player();
    await own.attach(video);
    own.configure({ streaming: { bufferingGoal: ALL_S, bufferBehind: ALL_S } });
    own.addEventListener("error", (event) => say(`error ${event.detail.code}`));
    await own.load(url, 0);
    close = () => own.destroy();
  }
  const stretches = () => Array.from({ length: video.buffered.length }, (_, i) => [video.buffered.start(i), video.buffered.end(i)]);
  let [ranges, grown] = [[], began];
  while (performance.now() - grown < patienceMs) {
    await new Promise((done) => setTimeout(done, 100));
    const now = stretches();
    if (JSON.stringify(now) !== JSON.stringify(ranges)) grown = performance.now();
    ranges = now;
    const last = ranges.at(-1);
    // What has come to the end may still have a frame of sound to come.
    if (ranges.length === 1 && last[1] - last[0] >= seconds - 0.05 && performance.now() - grown > 1000) break;
  }
  ranges = ranges.map((range) => range.map((at) => Number(at.toFixed(3))));
  await close();
  return { ranges, said, tookMs: Math.round(performance.now() - began) };
}
