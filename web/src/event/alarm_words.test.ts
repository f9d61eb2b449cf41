import { describe, expect, it } from "vitest";
import type { AlarmEvent } from "../event_api";
import { alarmText, alarmTitle, behindText, groupOf, keyFrameText, muteOf, muteText, ofEvent, titleOf } from "./alarm_words";

const event = (alarm: string, value: number | null, limit: number, more: Partial<AlarmEvent> = {}): AlarmEvent => (
  { alarm, state: "begun", stream: "hall", at_utc: "2026-05-04T03:02:01.123Z", value, limit, ...more }
);

describe("an alarm in words", () => {
  it("says what was measured and the limit, with units", () => {
    expect(alarmText(event("silence", -71.2, -60))).toBe("-71.2 dBFS at the loudest; limit -60 dBFS");
    expect(alarmText(event("silence", null, -60))).toBe("no sound at all; limit -60 dBFS");
    expect(alarmText(event("absent", null, 1))).toBe("there is no publisher");
    expect(alarmText(event("absent", 3.456, 1))).toBe("nothing came for 3.5 s; limit 1 s");
    expect(alarmText(event("frozen", 0.004, 0.02))).toBe("pictures differ by 0.004 levels of 255; limit 0.02");
    expect(alarmText(event("flicker", 12, 3))).toBe("12 flashes a second; limit 3");
  });

  it("has words for every alarm of the server", () => {
    const all = "silence clipping phase loudness black frozen blurred flicker av_sync captions bitrate discontinuity absent".split(" ");
    for (const alarm of all) {
      expect(alarmTitle(alarm)).not.toBe(alarm);
      for (const value of [null, 1.5]) expect(alarmText(event(alarm, value, 2))).not.toMatch(/null|undefined|NaN/);
    }
  });

  it("passes on what a newer server calls by its name", () => {
    expect(alarmTitle("hum")).toBe("hum");
    expect(alarmText(event("hum", 50.04, 40, { unit: "dB" }))).toBe("50 dB; limit 40 dB");
    expect(alarmText(event("hum", null, 40))).toBe("limit 40");
  });
});

describe("muting", () => {
  const until_utc = "2026-05-04T03:12:01Z";
  it("is of one alarm, or of all of a stream", () => {
    const [own, all] = [{ stream: "hall", alarm: "black", until_utc }, { stream: "hall", alarm: "*", until_utc }];
    expect(muteOf({ stream: "hall", alarm: "black" }, [all, own])).toBe(own);
    expect(muteOf({ stream: "hall", alarm: "silence" }, [own, all])).toBe(all);
    expect(muteOf({ stream: "hall", alarm: "silence" }, [own])).toBeNull();
    expect(muteOf({ stream: "slides", alarm: "black" }, [own, all])).toBeNull();
  });

  it("is told with what came of it", () => {
    const black = { stream: "hall", alarm: "black" };
    expect(muteText(black, 10, { status: 204, detail: null })).toBe("Black picture of hall: muted for 10 minutes.");
    expect(muteText(black, 0, { status: 204, detail: null })).toBe("Black picture of hall: no longer muted.");
    expect(muteText(black, 10, { status: 404, detail: "hall is not watched." })).toBe("Black picture of hall: not changed. hall is not watched.");
    expect(muteText(black, 10, null)).toContain("does not answer");
  });
});

describe("what operators are told", () => {
  it("is of the event's own streams", () => {
    const all = [{ stream: "hall" }, { stream: "bar" }, { stream: "hall-360" }];
    expect(ofEvent(all, new Set(["hall", "hall-360"]))).toEqual({ own: [all[0], all[2]], elsewhere: 1 });
  });

  it("is of a ladder's versions too, by their names", () => {
    expect(["hall-720p50", "hall-1080p30-2.5M", "hall-108p25-200k", "the-hall-2-720p50"].map(groupOf)).toEqual(["hall", "hall", "hall", "the-hall-2"]);
    expect(["hall", "hall-720", "hall-720p", "-720p50", "hall-720p50-x", "hall-720p50-2.M"].map(groupOf)).toEqual([null, null, null, null, null, null]);
    const alarms = [event("black", 1, 2, { stream: "hall-720p50" }), event("black", 1, 2, { stream: "wall-720p50" })];
    expect(ofEvent(alarms, new Set(["hall"]))).toEqual({ own: [alarms[0]], elsewhere: 1 });
  });

  it("counts alarms in the page's title", () => {
    expect(titleOf("Finals", 2)).toBe("(2) Finals");
    expect(titleOf("Finals", 0)).toBe("Finals");
  });

  it("says what came of asking for a key frame", () => {
    expect(keyFrameText("hall", { status: 204, detail: null })).toMatch(/was asked/);
    expect(keyFrameText("hall", { status: 409, detail: null })).toMatch(/not encoded here/);
    expect(keyFrameText("hall", { status: 403, detail: "Use the key." })).toBe("hall: refused. Use the key.");
    expect(keyFrameText("hall", { status: 500, detail: null })).toMatch(/answered 500/);
    expect(keyFrameText("hall", null)).toMatch(/does not answer/);
  });

  it("counts viewers that are behind", () => {
    const edges_ms = [50, 100, 200, 500, 1000];
    expect(behindText({ edges_ms, viewers: [5, 1, 1, 2, 0, 1] })).toBe("3 of 10");
    expect(behindText({ edges_ms, viewers: [5, 1, 1, 0, 0, 0] })).toBe("none");
    expect(behindText({ edges_ms, viewers: [0, 0, 0, 0, 0, 0] })).toBe("–");
    expect(behindText(undefined)).toBe("–");
  });
});
