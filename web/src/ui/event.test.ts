import { describe, expect, it } from "vitest";
import {
  alarmPicturePath, type Alarms, crewPath, eventInfoPath, type EventInfo, eventPath, type EventStream, keyQuery, mutePath, passedOn, sheetPath, thumbnailPath,
} from "../event_api";
import type { PlayerStats } from "../player/playing";
import { closedCrewText } from "./crew";
import { alarmsAfter, alarmsLine } from "./dashboard";
import { closedText, webAddress } from "./event";
import { numberIcon } from "./favicon";
import { addressToPrint, expiryWarning } from "./sheet";
import { ageText } from "./thumbnail";
import { delayText, isGone, tileText } from "./tile";

const stream = (more: Partial<EventStream> = {}): EventStream => (
  { name: "hall", group: false, known: true, live: true, sound: true, picture: true, access: null, ...more }
);

describe("the addresses of an event", () => {
  it("take along what lets the caller in, and nothing else", () => {
    expect(passedOn("?expires=10&token=a-b&engine=mse&key=a%26b")).toBe("expires=10&token=a-b&key=a%26b");
    expect(eventInfoPath("finals", "?engine=mse")).toBe("/api/events/finals");
    expect(eventInfoPath("the finals", "?expires=10&token=x")).toBe("/api/events/the%20finals?expires=10&token=x");
    expect(eventPath("finals", "expires=1&token=x")).toBe("/event/finals?expires=1&token=x");
    expect(crewPath("finals", "?sheet&key=k")).toBe("/crew/finals?key=k");
    expect(sheetPath("finals")).toBe("/crew/finals?sheet");
    expect(sheetPath("finals", "?key=k")).toBe("/crew/finals?sheet&key=k");
  });

  it("are printed without the operator's key", () => {
    expect(addressToPrint("/crew/finals", "?sheet&key=k%26k")).toBe("/crew/finals?sheet");
    expect(addressToPrint("/crew/finals", "?key=k&sheet&keys=2")).toBe("/crew/finals?sheet&keys=2");
    expect(addressToPrint("/crew/finals", "")).toBe("/crew/finals");
  });

  it("carry names and keys as they have to be written", () => {
    expect(mutePath("a&b", "*", "10m")).toBe("/api/alarms/mute?stream=a%26b&alarm=*&for=10m");
    expect(thumbnailPath("hall", "a/b")).toBe("/api/streams/hall/thumbnail?v=a%2Fb");
    expect(thumbnailPath("hall", "1", "expires=1&token=x")).toBe("/api/streams/hall/thumbnail?v=1&expires=1&token=x");
    expect(alarmPicturePath("a 1", "k&k")).toBe("/api/alarms/pictures/a%201?key=k%26k");
    expect(alarmPicturePath("1", "")).toBe("/api/alarms/pictures/1");
    expect(keyQuery("")).toBeNull();
  });

  it("of a chat lead to the web and nowhere else", () => {
    expect(webAddress("https://chat.example.org/a?b")).toBe("https://chat.example.org/a?b");
    expect(webAddress("https://größer.example/ホール")).toBe("https://xn--grer-wna1l.example/%E3%83%9B%E3%83%BC%E3%83%AB");
    for (const other of [null, "", "javascript:alert(1)", "data:text/html,x", "//chat.example.org", "https://a b"]) expect(webAddress(other)).toBeNull();
  });
});

describe("a stream of an event", () => {
  it("says why there is no picture", () => {
    expect(tileText(stream({ known: false, live: false }), null, null)).toMatch(/signed link/);
    expect(tileText(stream({ live: false }), null, null)).toMatch(/hall is not live\. It is shown here as soon as it begins/);
    expect(tileText(stream(), "waiting", null)).toMatch(/not live/);
    expect(tileText(stream(), null, null)).toBe("Connecting…");
    expect(tileText(stream(), "stalled", null)).toMatch(/No data/);
    expect(tileText(stream({ live: false }), "stalled", null)).toMatch(/not live/);
    expect(tileText(stream({ live: false }), "playing", null)).toBe("");
    expect(tileText(stream(), "reconnecting", "the connection was lost")).toMatch(/the connection was lost/);
    expect(tileText(stream(), "refused", "Too many viewers.")).toBe("Too many viewers.");
    expect(tileText(stream(), "unsupported", "No H.265 here.")).toMatch(/^No H\.265 here\. Its own page/);
    expect(tileText(stream(), "playing", null)).toBe("");
  });

  it("is no longer tried once it is not live, and nothing of it plays", () => {
    for (const state of [null, "waiting", "unsupported"] as const) {
      expect(isGone(stream({ live: false }), state)).toBe(true);
      expect(isGone(stream(), state)).toBe(false);
    }
    for (const state of ["playing", "stalled", "buffering"] as const) expect(isGone(stream({ live: false }), state)).toBe(false);
  });

  it("tells its delay, or what of it is known", () => {
    const stats = (more: Partial<PlayerStats>): PlayerStats => ({ state: "playing", delayMs: null, behindLiveMs: null, targetMs: null, ...more }) as PlayerStats;
    expect(delayText(stats({ delayMs: { last: 130, p50: 143.4, p95: 180, source: "stream" } }))?.text).toBe("143 ms");
    expect(delayText(stats({ behindLiveMs: 20.4 }))?.text).toBe("+20 ms");
    expect(delayText(stats({ behindLiveMs: 900, targetMs: 1000 }))?.title).toMatch(/playlist/);
    expect(delayText(stats({ state: "stalled", behindLiveMs: 20 }))).toBeNull();
    expect(delayText(stats({}))).toBeNull();
  });
});

describe("an event that cannot be shown", () => {
  it("says what to do", () => {
    expect(closedText("finals", 404)).toMatch(/no event called finals/);
    expect(closedText("finals", 403)).toMatch(/invited/);
    expect(closedText("finals", 503)).toMatch(/503.*tries again/);
  });

  it("says to strangers that it is for operators, and how to be one", () => {
    expect(closedCrewText("finals", 404)).toMatch(/no event/);
    expect(closedCrewText("finals", 403)).toMatch(/\[admin\] networks/);
    expect(closedCrewText("finals", { streams: [], crew: null } as unknown as EventInfo)).toMatch(/admin listener/);
    expect(closedCrewText("finals", { streams: [], crew: { access: null, public: [] } } as unknown as EventInfo)).toBeNull();
    expect(closedCrewText("finals", null)).toBeNull();
    expect(closedCrewText("finals", 503)).toBeNull();
  });
});

describe("what operators see at a glance", () => {
  it("is the number of alarms in the page's icon", () => {
    expect(decodeURIComponent(numberIcon(3))).toContain(">3</text>");
    expect(decodeURIComponent(numberIcon(12))).toContain(">9+</text>");
    expect(numberIcon(1)).toMatch(/^data:image\/svg\+xml,/);
  });

  it("is a line of alarms on the dashboard, without the muted ones", () => {
    const alarm = (stream: string, alarm: string, muted = false) => ({ alarm, stream, muted, state: "begun" as const, at_utc: "", value: 1, limit: 2 });
    const told = (...active: ReturnType<typeof alarm>[]): Alarms => ({ active, recent: [], muted: [] });
    expect(alarmsLine(told())).toBe("");
    expect(alarmsLine(told(alarm("hall", "black", true)))).toBe("");
    expect(alarmsLine(told(alarm("hall", "black"), alarm("bar", "silence")))).toBe("2 alarms · hall: Black picture · bar: Silence");
    expect(alarmsLine(told(...Array.from({ length: 7 }, (_, i) => alarm(`s${i}`, "black"))))).toMatch(/^7 alarms .* 2 more$/);
  });

  it("stays on the dashboard while the server is silent, and is asked for again after a refusal", () => {
    const active = [{ alarm: "black", stream: "hall", state: "begun" as const, at_utc: "", value: 1, limit: 2 }];
    expect(alarmsAfter({ active, recent: [], muted: [] }, "")).toEqual({ text: "1 alarm · hall: Black picture", againMs: 5000 });
    for (const silent of [null, 502]) expect(alarmsAfter(silent, "1 alarm")).toEqual({ text: "1 alarm", againMs: 5000 });
    for (const refused of [401, 403, 404]) expect(alarmsAfter(refused, "1 alarm")).toEqual({ text: "", againMs: 30_000 });
  });

  it("is how old a picture is, once that is known", () => {
    expect(ageText(null)).toBe("");
    expect(ageText(1)).toBe("new");
    expect(ageText(8.6)).toBe("8 s old");
    expect(ageText(75)).toBe("same for 1 min 15 s");
  });

  it("is a warning of links that expire", () => {
    const now = Date.parse("2026-11-29T12:00:00Z");
    expect(expiryWarning(null, now)).toBeNull();
    expect(expiryWarning(now - 1, now)).toMatch(/have expired/);
    expect(expiryWarning(now + 90_000, now)).toMatch(/good for 2 minutes/);
    expect(expiryWarning(now + 13 * 3_600_000, now)).toMatch(/good for 13 hours/);
    expect(expiryWarning(now + 72 * 3_600_000, now)).toMatch(/good for 3 days/);
  });
});
