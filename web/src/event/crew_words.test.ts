import { describe, expect, it } from "vitest";
import type { AlarmEvent, Alarms, EventStream } from "../event_api";
import { crewBadge, type CrewKnowledge, unwatchedText } from "./crew_words";

const stream = (name: string, more: Partial<EventStream> = {}): EventStream => (
  { name, group: false, known: true, live: true, sound: true, picture: true, access: null, ...more }
);
const alarm = (of: string, muted = false): AlarmEvent => ({ alarm: "black", state: "begun", stream: of, at_utc: "2026-05-04T03:02:01Z", value: 1, limit: 2, muted });
const told = (active: AlarmEvent[], watched?: string[]): Alarms => ({ active, recent: [], muted: [], watched });
const streams = [stream("hall", { group: true }), stream("slides")];
const known = (more: Partial<CrewKnowledge>): CrewKnowledge => (
  { streams, told: told([], ["hall-720p50", "slides"]), status: null, isOld: false, names: new Set(["hall", "slides"]), versions: () => undefined, ...more }
);

describe("the badge of the crew's page", () => {
  it("says OK where all is live, watched and without alarms", () => {
    expect(crewBadge(known({}))).toEqual({ words: "OK", className: "live", loud: 0 });
    expect(crewBadge(known({ told: told([]) })).words).toBe("OK");
    expect(crewBadge(known({ told: told([], ["slides"]) })).words).toBe("OK");
  });

  it("does not say OK where nothing is known of alarms", () => {
    for (const status of [null, 401, 503]) {
      expect(crewBadge(known({ told: null, status }))).toEqual({ words: "Alarms unknown", className: "idle", loud: 0 });
    }
    expect(crewBadge(known({ told: null, isOld: true }))).toEqual({ words: "Alarms unknown", className: "idle old", loud: 0 });
  });

  it("does not say OK where nothing of the event is watched", () => {
    for (const one of [{ told: told([], ["elsewhere"]) }, { told: told([], []) }, { told: null, status: 404 }]) {
      expect(crewBadge(known(one))).toEqual({ words: "Not watched", className: "idle", loud: 0 });
    }
  });

  it("counts alarms, of versions that were never seen too, and what is live", () => {
    expect(crewBadge(known({ told: told([alarm("hall-720p50"), alarm("slides"), alarm("other")]) }))).toEqual({ words: "2 alarms", className: "alarmed", loud: 2 });
    expect(crewBadge(known({ told: told([alarm("slides"), alarm("hall-1080p30-2.5M", true)]) })).words).toBe("1 alarm · 1 muted");
    expect(crewBadge(known({ streams: [stream("hall"), stream("slides", { live: false })] }))).toMatchObject({ words: "1 of 2 live", className: "idle" });
  });

  it("shows what it knew, as old, while the server is silent", () => {
    expect(crewBadge(known({ isOld: true, told: told([alarm("slides")]) }))).toMatchObject({ words: "1 alarm", className: "alarmed old" });
  });
});

describe("what is not watched", () => {
  it("is named, and a group counts by one of its versions", () => {
    expect(unwatchedText(known({}))).toBeNull();
    expect(unwatchedText(known({ told: told([], ["hall-720p50"]) }))).toBe(
      "Not watched for alarms: slides. [watch] streams in the server's configuration names what is.");
    expect(unwatchedText(known({ told: told([], ["hall-big"]) }))).toMatch(/^Not watched for alarms: hall, slides\./);
    expect(unwatchedText(known({ told: told([], ["hall-big", "slides"]), versions: () => new Set(["hall-big"]) }))).toBeNull();
  });

  it("is not named where the server does not say what is", () => {
    expect(unwatchedText(known({ told: told([]) }))).toBeNull();
    expect(unwatchedText(known({ told: null }))).toBeNull();
  });
});
