import { describe, expect, it } from "vitest";
import type { StreamInfo } from "../api";
import { noteTexts } from "./dashboard";
import { age, bitrate, duration } from "./format";
import { sparkPath } from "./sparkline";
import { stateText } from "./watch";

const stream: StreamInfo = {
  name: "a", live: true, bitrate_bps: 0, viewers: 0, codecs: [], uptime_s: 0, newest_byte_age_ms: 0, bytes_in: 0,
  continuity_errors: 0, moved_forward: 0, key_frame_interval_s: 2,
};

describe("the pages' words", () => {
  it("write numbers as people do", () => {
    expect([bitrate(850_000), bitrate(4_560_000), bitrate(25_000_000)]).toEqual(["850 kbit/s", "4.6 Mbit/s", "25 Mbit/s"]);
    expect([duration(5), duration(75), duration(7300), duration(90_000)]).toEqual(["5 s", "1 min 15 s", "2 h 1 min", "1 d 1 h"]);
    expect([age(null), age(40.2), age(2500)]).toEqual(["–", "40 ms", "2.5 s"]);
  });

  it("tell what deserves a look, and nothing else", () => {
    expect(noteTexts(stream)).toEqual([]);
    expect(noteTexts({ ...stream, continuity_errors: 3, moved_forward: 1, key_frame_interval_s: 8 })).toHaveLength(3);
  });

  it("say what the player waits for", () => {
    expect(stateText("waiting", "demo", null)).toBe("Waiting for demo to start");
    expect(stateText("playing", "demo", null)).toBe("");
  });

  it("draw the newest value at the right edge", () => {
    expect(sparkPath([1], 60, 120, 28)).toBe("");
    expect(sparkPath([0, 0], 61, 120, 28)).toBe("M118.0,28.0L120.0,28.0");
  });
});
