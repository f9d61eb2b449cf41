import { describe, expect, it } from "vitest";
import type { StreamInfo } from "../api";
import { renditionText } from "./controls";
import { arranged, codecsText, noteTexts, stateWord } from "./dashboard";
import { age, bitrate, countOf, delayOnAxis, duration } from "./format";
import { refusal } from "../player/policy";
import { sparkPath } from "./sparkline";
import { carriedText, stateText } from "./watch";
import { niceTop, runsOf, usualTop } from "./chart";
import { countText, encoderFacts, refusalText } from "./stream";
import { COLUMNS, sorted } from "./viewers";
import { rangeWords } from "./why";
import { carriedMux, type Client, type EncoderStatus, livePath, watchPath } from "../api";

const stream: StreamInfo = {
  name: "a", live: true, bitrate_bps: 0, viewers: 0, codecs: [], uptime_s: 0, newest_byte_age_ms: 0, bytes_in: 0,
  continuity_errors: 0, moved_forward: 0, key_frame_interval_s: 2,
};

describe("the pages' words", () => {
  it("write numbers as people do", () => {
    expect([bitrate(850_000), bitrate(4_560_000), bitrate(25_000_000)]).toEqual(["850 kbit/s", "4.6 Mbit/s", "25 Mbit/s"]);
    expect([duration(5), duration(75), duration(7300), duration(90_000)]).toEqual(["5 s", "1 min 15 s", "2 h 1 min", "1 d 1 h"]);
    expect([age(null), age(40.2), age(2500)]).toEqual(["–", "40 ms", "2.5 s"]);
    expect([countOf(1, "segment"), countOf(1234, "segment")]).toEqual(["1 segment", "1,234 segments"]);
  });

  it("write all of an axis in one unit", () => {
    expect([0.5, 1].map((share) => delayOnAxis(share * 16_000, 16_000))).toEqual(["8 s", "16 s"]);
    expect([0.5, 1].map((share) => delayOnAxis(share * 8000, 8000))).toEqual(["4000 ms", "8000 ms"]);
  });

  it("tell what an encoder leaves out", () => {
    const of = (running: EncoderStatus["running"]): EncoderStatus => ({ name: "a", state: "running", error: null, running });
    expect(encoderFacts([of({ pictures: 98, dropped: 2 })], "a")).toEqual([["Encoder", "running"], ["Dropped by the encoder", "2 of 100 pictures"]]);
    expect(encoderFacts([{ ...of(null), state: "waiting", error: "no camera" }], "a")).toEqual([["Encoder", "waiting: no camera"]]);
    expect(encoderFacts([of(null)], "b")).toEqual([]);
  });

  it("do not let one outage hide all else of a curve", () => {
    expect(usualTop([40, 45, null, 50, 42, 41, 43, 44, 46, 47, 48, 49, 45, 16_000])).toBe(96);
    expect(usualTop([40, 80, 120])).toBe(120);
    expect(usualTop([null])).toBe(0);
  });

  it("tell who is not let in what to do", () => {
    expect(refusal(401)).toContain("link");
    expect(refusal(403)).toContain("new one");
    expect([refusal(404), refusal(503)]).toEqual([null, null]);
    expect(watchPath("a b", "token=x")).toMatch(/watch\/a%20b\?token=x$/);
    expect(watchPath("a", null)).toMatch(/watch\/a$/);
  });

  it("tell what deserves a look, and nothing else", () => {
    expect(noteTexts(stream)).toEqual([]);
    expect(noteTexts({ ...stream, continuity_errors: 3, moved_forward: 1, key_frame_interval_s: 8 })).toHaveLength(3);
    const left_out = [{ pid: 277, codec: "teletext", why: "it is neither pictures nor sound" }];
    expect(noteTexts({ ...stream, left_out })[0]).toContain("teletext");
    const slate = { on_air: true, times: 1, seconds: 2 };
    expect(noteTexts({ ...stream, live: false, slate })).toEqual(["viewers see the slate: the publisher is away"]);
    expect([stateWord(stream), stateWord({ ...stream, slate })]).toEqual(["Live", "Slate"]);
  });

  it("name what a stream has, by its number where it has no name", () => {
    const codecs = [{ kind: "other" as const, stream_type: 6 }, { kind: "other" as const, stream_type: 6, name: "teletext" }];
    expect(codecsText({ ...stream, codecs })).toBe("stream type 0x06  ·  teletext");
  });

  it("say what the player waits for", () => {
    const url = "http://host/live/demo.ts";
    expect(stateText("waiting", "demo", null, url)).toMatch(/^Waiting for demo to start\. There is no stream/);
    expect(stateText("playing", "demo", null, url)).toBe("");
    expect(stateText("unsupported", "demo", "The sound is AC-3.", url)).toBe(`The sound is AC-3. Open it in VLC or another player: ${url}`);
  });

  it("draw the newest value at the right edge", () => {
    expect(sparkPath([1], 60, 120, 28)).toBe("");
    expect(sparkPath([0, 0], 61, 120, 28)).toBe("M118.0,28.0L120.0,28.0");
  });
});

describe("versions of one capture", () => {
  const version = (name: string, height: number, bitrate_bps: number) =>
    ({ name, live: true, width: height * 2, height, frame_rate: 50, bitrate_bps });
  const renditions = [version("hall-720p50", 720, 8e6), version("hall-90p25", 90, 0)];

  it("stand together, best first, among the others by their name", () => {
    const member = (name: string): StreamInfo => ({ ...stream, name, group: "hall", renditions });
    const alone: StreamInfo = { ...stream, name: "solo-720p50", group: "solo", renditions: [] };
    const places = arranged([alone, member("hall-90p25"), { ...stream, name: "hall-x" }, member("hall-720p50"), stream]);
    expect(places.map(({ group, streams }) => [group, ...streams.map((one) => one.name)])).toEqual([
      [null, "a"], ["hall", "hall-720p50", "hall-90p25"], [null, "hall-x"], [null, "solo-720p50"],
    ]);
  });

  it("are called by picture and rate", () => {
    expect(renditions.map(renditionText)).toEqual(["720p50 · 8.0 Mbit/s", "90p50"]);
    expect(renditionText({ ...renditions[0]!, height: null, bitrate_bps: 0 })).toBe("hall-720p50");
  });
});

function client(address: string, behindMs: number | null, why: Client["why"] = "fine"): Client {
  const tcp = {
    rtt_ms: 1, rttvar_ms: 1, cwnd: 10, snd_mss: 1448, unacked: 0, retransmitted_segments: 0, retransmitted_bytes: 0,
    notsent_bytes: 0, delivery_bps: 0, pacing_bps: null,
  };
  return {
    address, stream: "a", joined_s: 1, bytes_sent: 0, rate_bps: null, behind_ms: behindMs, behind_bytes: 0, moved_forward: 0,
    why, pacing_bps: null, seen_ms: 0, tcp,
  };
}

describe("the figures", () => {
  it("sort viewers either way, those without a value last", () => {
    const all = [client("10.0.0.2:9", 5), client("10.0.0.10:1", null), client("10.0.0.1:77", 900, "us")];
    const addresses = (column: string, descending: boolean): string[] =>
      sorted(all, COLUMNS.findIndex(({ label }) => label === column), descending).map((c) => c.address.split(":")[0]!);
    expect(addresses("Behind", true)).toEqual(["10.0.0.1", "10.0.0.2", "10.0.0.10"]);
    expect(addresses("Behind", false)).toEqual(["10.0.0.2", "10.0.0.1", "10.0.0.10"]);
    expect(addresses("Address", false)).toEqual(["10.0.0.1", "10.0.0.2", "10.0.0.10"]);
    expect(addresses("Why", true)[0]).toBe("10.0.0.1");
  });

  it("name the ranges of a histogram", () => {
    expect(rangeWords([50, 100, 500, 1000, 5000])).toEqual(["0–50 ms", "50–100 ms", "100–500 ms", "500 ms–1 s", "1–5 s", "> 5 s"]);
  });

  it("say how many there are, and why they are not shown", () => {
    expect(countText({ viewers: 0, clients: [], rate_bps: 0 })).toBe("Nobody is watching.");
    expect(countText({ viewers: 1, clients: [client("a", 0)], rate_bps: 5e6 })).toBe("1 viewer, 5.0 Mbit/s together");
    expect(countText({ viewers: 3000, clients: [client("a", 0)], rate_bps: 15e9 })).toMatch(/^3,000 viewers, .*; the 1 furthest behind are shown$/);
    expect(refusalText(401, true)).toContain("key does not open");
    expect(refusalText(401, false)).toContain("publish key");
    expect(refusalText(403, false)).toContain("own machine");
    expect(refusalText(404, false)).toContain("404");
  });

  it("end an axis at a round number", () => {
    expect([0, 0.7, 1, 3.5, 5.01, 31e6].map(niceTop)).toEqual([1, 0.8, 1, 4, 6, 40e6]);
  });

  it("break a curve where there is nothing", () => {
    const same = (value: number): number => value;
    expect(runsOf([1, null, 3, 4], same, same)).toEqual([["0.0,1.0"], ["2.0,3.0", "3.0,4.0"]]);
    expect(runsOf([null], same, same)).toEqual([]);
  });
});

describe("a stream that is carried as it is", () => {
  it("is said to be none that a page can play, with its own address", () => {
    expect([carriedMux(stream), carriedMux({ ...stream, mux: "ts" }), carriedMux({ ...stream, mux: "webm" })]).toEqual([null, null, "WebM"]);
    expect(carriedText("stage", "FLV")).toContain("comes as FLV");
    expect(livePath("stage", "?token=x", "flv")).toBe("/live/stage.flv?token=x");
  });
});
