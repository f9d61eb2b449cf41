import { describe, expect, it } from "vitest";
import type { Rendition } from "../api";
import type { EventStream } from "../event_api";
import { heardOf, nextHeard, versionFor } from "./choose";

const rendition = (height: number | null, live = true): Rendition => ({
  name: `hall-${height}`, live, width: height === null ? null : (height * 16) / 9, height, frame_rate: 50, bitrate_bps: 1e6,
});
const ladder = [rendition(1080), rendition(720), rendition(360)];

describe("the version of a capture", () => {
  it("is the best for the large picture", () => {
    expect(versionFor(ladder, 100, true)).toBe(ladder[0]);
    expect(versionFor([rendition(1080, false), ...ladder.slice(1)], 2000, true)?.height).toBe(720);
  });

  it("is no larger than a small picture needs", () => {
    expect(versionFor(ladder, 200, false)?.height).toBe(360);
    expect(versionFor(ladder, 400, false)?.height).toBe(360);
    expect(versionFor(ladder, 500, false)?.height).toBe(720);
    expect(versionFor(ladder, 3000, false)?.height).toBe(1080);
  });

  it("is one that is live", () => {
    expect(versionFor([rendition(1080), rendition(360, false)], 200, false)?.height).toBe(1080);
    expect(versionFor(ladder.map((one) => ({ ...one, live: false })), 200, false)).toBeNull();
    expect(versionFor([], 200, true)).toBeNull();
  });

  it("is the last one while sizes are not known", () => {
    const unknown = [{ ...rendition(null), name: "a" }, { ...rendition(null), name: "b" }];
    expect(versionFor(unknown, 500, false)?.name).toBe("b");
    expect(versionFor(unknown, 500, true)?.name).toBe("a");
  });
});

describe("the sound of an event", () => {
  const stream = (name: string, more: Partial<EventStream> = {}): EventStream => (
    { name, group: false, known: true, live: true, sound: true, picture: true, access: null, ...more }
  );
  const streams = [stream("hall"), stream("slides", { sound: false }), stream("english", { picture: false, sound: null })];

  it("is at first the one that the event says", () => {
    expect(heardOf(streams, null, "english")).toBe("english");
    expect(heardOf(streams, null, null)).toBe("hall");
    expect(heardOf(streams, null, "slides")).toBe("hall");
  });

  it("is what the viewer has chosen, as long as it is there", () => {
    expect(heardOf(streams, "english", "hall")).toBe("english");
    expect(heardOf(streams.slice(0, 2), "english", "hall")).toBe("hall");
    expect(heardOf([stream("hall", { known: false })], "hall", "hall")).toBeNull();
    expect(heardOf([], null, "hall")).toBeNull();
  });

  it("goes round by the key", () => {
    expect(nextHeard(streams, "hall")).toBe("english");
    expect(nextHeard(streams, "english")).toBe("hall");
    expect(nextHeard(streams, null)).toBe("hall");
    expect(nextHeard([], "hall")).toBeNull();
  });
});
