import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Library, LibraryEvents } from "./library";
import type { PlayerEvents, PlayerState } from "./playing";
import { SegmentedPlayer } from "./segmented";

const { opened } = vi.hoisted(() => ({ opened: [] as { url: string; events: LibraryEvents; closed: boolean }[] }));

vi.mock("./hls", () => ({
  openHls: (_video: unknown, url: string, _wish: unknown, events: LibraryEvents): Library => {
    const one = { url, events, closed: false };
    opened.push(one);
    return {
      playsItself: false, window: () => null, latency: () => null, target: () => null, seek: () => undefined, goLive: () => undefined, captureUs: () => null,
      quality: () => null, offersPictures: () => true, choose: () => undefined, close: () => (one.closed = true),
    };
  },
}));
vi.mock("../clock", () => ({
  ServerClock: class {
    offset = null;
    start(): void {}
    stop(): void {}
    nowUs(): null {
      return null;
    }
    async known(): Promise<void> {}
  },
}));

/** An element as far as the player asks it; `shows` presents a picture. */
class FakeElement {
  readyState = 0;
  videoWidth = 0;
  videoHeight = 0;
  currentTime = 0;
  playbackRate = 1;
  src = "";
  currentSrc = "";
  srcObject = null;
  buffered = { length: 0 };
  private shown: ((now: number, data: object) => void)[] = [];
  append(): void {}
  getContext(): null {
    return null;
  }
  canPlayType(): string {
    return "";
  }
  getVideoPlaybackQuality(): object {
    return { totalVideoFrames: 0, droppedVideoFrames: 0 };
  }
  async play(): Promise<void> {}
  pause(): void {}
  addEventListener(): void {}
  requestVideoFrameCallback(callback: (now: number, data: object) => void): void {
    this.shown.push(callback);
  }
  shows(mediaTime: number): void {
    for (const callback of this.shown.splice(0)) callback(0, { presentedFrames: 1, mediaTime, expectedDisplayTime: performance.now() });
  }
}

describe("a player by playlists", () => {
  let elements: FakeElement[];
  let states: [PlayerState, string | null][];
  let statusCode: number;
  let player: SegmentedPlayer;
  beforeEach(() => {
    vi.useFakeTimers();
    [elements, states, statusCode, opened.length] = [[], [], 200, 0];
    const createElement = (): FakeElement => {
      const made = new FakeElement();
      elements.push(made);
      return made;
    };
    vi.stubGlobal("document", { createElement, hidden: false });
    vi.stubGlobal("location", { href: "http://a/watch/hall" });
    vi.stubGlobal("SourceBuffer", class { appendBuffer(): void {} });
    vi.stubGlobal("MediaSource", class { addSourceBuffer(): void {} });
    vi.stubGlobal("HTMLMediaElement", { HAVE_CURRENT_DATA: 2 });
    vi.stubGlobal("window", globalThis);
    vi.stubGlobal("requestAnimationFrame", () => 0);
    vi.stubGlobal("fetch", async () => new Response("#EXTM3U", { status: statusCode }));
    const events: PlayerEvents = {
      state: (state, detail) => states.push([state, detail]), engine: () => undefined, tracks: () => undefined, soundAlone: () => undefined,
      needsGesture: () => undefined, rendition: () => undefined,
    };
    player = new SegmentedPlayer({ name: "hall", way: "hls", path: (name) => `/live/${name}/index.m3u8`, delayS: null, ladder: () => null }, events);
    player.start();
  });
  afterEach(() => {
    player.stop();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  const untilOpened = async (count: number): Promise<void> => {
    // The library's module is loaded by a promise that no timer moves.
    await vi.waitFor(() => expect(opened.length).toBe(count));
  };

  it("tries again what has no decoder, in silence, and plays what comes then", async () => {
    await untilOpened(1);
    opened[0]!.events.trouble("unplayable", "No H.265 here.");
    expect([opened[0]!.closed, states.at(-1)]).toEqual([true, ["unsupported", "No H.265 here."]]);
    const told = states.length;
    await vi.advanceTimersByTimeAsync(59_000);
    expect(opened.length).toBe(1);
    await vi.advanceTimersByTimeAsync(1500);
    expect(opened.length).toBe(2);
    opened[1]!.events.trouble("unplayable", "No H.265 here.");
    await vi.advanceTimersByTimeAsync(60_500);
    expect(opened.length).toBe(3);
    expect(states.slice(told), "the words stay as they are").toEqual([]);
    for (const element of elements) element.shows(1);
    await vi.advanceTimersByTimeAsync(200);
    expect(states.slice(told)).toEqual([["playing", null]]);
    expect(opened[2]!.closed).toBe(false);
  });

  it("tries another version at once, and then again once a minute and not twice", async () => {
    await untilOpened(1);
    opened[0]!.events.trouble("unplayable", "No H.265 here.");
    await vi.advanceTimersByTimeAsync(30_000);
    player.switchTo("slides");
    expect(states.at(-1)).toEqual(["buffering", null]);
    await vi.advanceTimersByTimeAsync(10);
    expect(opened.map(({ url }) => url)).toEqual(["http://a/live/hall/index.m3u8", "http://a/live/slides/index.m3u8"]);
    opened[1]!.events.trouble("unplayable", "No H.265 here.");
    await vi.advanceTimersByTimeAsync(59_000);
    expect(opened.length).toBe(2);
    await vi.advanceTimersByTimeAsync(1500);
    expect(opened.length).toBe(3);
  });

  it("does not try again what the browser cannot do at all, and says when the stream has gone", async () => {
    await untilOpened(1);
    opened[0]!.events.trouble("unplayable", "No H.265 here.");
    statusCode = 404;
    await vi.advanceTimersByTimeAsync(60_500);
    expect(states.at(-1)).toEqual(["waiting", null]);
    statusCode = 200;
    await vi.advanceTimersByTimeAsync(3000);
    expect(opened.length).toBe(2);
    opened[1]!.events.trouble("unsupported", "No Media Source Extensions.");
    await vi.advanceTimersByTimeAsync(200_000);
    expect([opened.length, states.at(-1)]).toEqual([2, ["unsupported", "No Media Source Extensions."]]);
  });
});
