import { describe, expect, it } from "vitest";
import type { Latency } from "../api";
import type { PartFigures, StageSummary } from "../stages/ledger";
import { PARTS, type Part } from "../stages/parts";
import { stackOf } from "./chart";
import { medianLines, reportsText } from "./latency";
import { fine, viewOf } from "./stage_words";
import { withoutReport } from "./watch";

const ALL: Record<Part, number> = { capture: 0.5, queue: 0.5, look_ahead: NaN, encode: 11, mux: 0.3, send: 0.7, hold: NaN, relay: 0.5, network: 2, decode: 3, display: 6 };

function summaryOf(known: Partial<Record<Part, number>>, more: Partial<StageSummary> = {}): StageSummary {
  const figures = (ms: number | undefined): PartFigures | null => (ms === undefined ? null : { p50: ms, p99: ms * 2, count: 500 });
  return {
    pictures: 500, shown: 501, fromTheFuture: 0, futureMs: 0, clockMs: 0.3, senderClockMs: 1.024, total: { p50: 24.5, p99: 40, count: 500 },
    parts: Object.fromEntries(PARTS.map((part) => [part, figures(known[part])])) as StageSummary["parts"], ...more,
  };
}

const WEBCODECS = { engine: "webcodecs", isSecure: true, isMuted: true };
const textOf = (view: ReturnType<typeof viewOf>, part: Part): string => view.rows.find((row) => row.part === part)!.text;

describe("where the milliseconds went, in words", () => {
  it("names each stage in order, marks the largest and says what would make it smaller", () => {
    const view = viewOf(summaryOf(ALL), WEBCODECS);
    expect(view.rows.map(({ part }) => part)).toEqual(PARTS);
    expect(view.rows.filter((row) => row.isLargest).map(({ part, p50, p99 }) => [part, p50, p99])).toEqual([["encode", 11, 22]]);
    expect(view.advice).toBe("The encoder takes 11 ms, more than anything else. To make it smaller: --preset ultrafast, --threads 2 and more, a lower --bitrate.");
    expect(view.notes.join(" ")).toContain("The server's clock is known here to ± 0.3 ms. The sender's clock is right to 1.0 ms");
    for (const row of view.rows) expect(row.text, row.part).toMatch(/^[A-Z].*\.$/);
    for (const part of PARTS) expect(viewOf(summaryOf({ ...ALL, [part]: 99 }), WEBCODECS).advice).toMatch(/takes 99 ms, .* To make it smaller: .+\.$/);
  });

  it("says which part an unknown one is in", () => {
    const { encode: _, decode: __, relay: ___, ...rest } = ALL;
    const view = viewOf(summaryOf(rest), WEBCODECS);
    expect(textOf(view, "encode")).toBe("Not told apart here: part of “Mux”.");
    expect(textOf(view, "relay")).toBe("Not told apart here: part of “Network”.");
    expect(textOf(view, "decode")).toBe("Not told apart here: part of “Display”.");
    const plain = viewOf(summaryOf({ network: 15, decode: 3, display: 6 }), WEBCODECS);
    expect(textOf(plain, "capture")).toBe("Not told apart here: part of “Network”.");
    expect(textOf(plain, "hold")).toBe("Not told apart here: part of “Network”.");
    expect(plain.advice).toContain("an encoder that says its stages would tell");
    // By a browser's own HLS nothing is known but the whole.
    const whole = viewOf(summaryOf({ display: 900 }), { ...WEBCODECS, engine: "native-hls" });
    expect(textOf(whole, "network")).toBe("Not told apart here: part of “Display”.");
    expect(whole.advice).toContain("watching by “Direct”");
  });

  it("knows that pictures wait for sound that is on", () => {
    const advice = (isMuted: boolean): string => viewOf(summaryOf({ ...ALL, display: 60 }), { ...WEBCODECS, isMuted }).advice;
    expect([advice(true).includes("no sound"), advice(false).includes("no sound")]).toEqual([false, true]);
  });

  it("says what holds pictures where a video element plays", () => {
    const { decode: _, ...rest } = ALL;
    const advice = (engine: string, isSecure: boolean): string => viewOf(summaryOf({ ...rest, display: 60 }), { engine, isSecure, isMuted: true }).advice;
    expect(advice("mse", false)).toContain("this page over HTTPS");
    expect(advice("mse", true)).toContain("?engine=webcodecs");
    expect(advice("hls", true)).toContain("a smaller wanted delay");
  });

  it("tells pictures from the future as such", () => {
    const { network: _, ...rest } = ALL;
    const view = viewOf(summaryOf(rest, { total: null, fromTheFuture: 400, futureMs: 3 }), WEBCODECS);
    expect(view.notes[0]).toContain("400 of 500 pictures come from the future: they were here up to 3.0 ms before");
    expect([view.total, textOf(view, "network")]).toEqual([null, "Not known."]);
  });

  it("says what is not known at all", () => {
    const none = viewOf(summaryOf({}, { shown: 0, pictures: 0, total: null }), WEBCODECS);
    expect([none.advice, none.notes]).toEqual(["", ["No picture was shown in the last ten seconds."]]);
    const untimed = viewOf(summaryOf({ decode: 3, display: 6 }, { total: null, senderClockMs: null }), WEBCODECS);
    expect(untimed.notes[0]).toContain("Nothing says when these pictures were captured");
    expect(textOf(untimed, "encode")).toBe("Not known.");
    expect(viewOf(summaryOf(ALL, { clockMs: null, senderClockMs: Infinity }), WEBCODECS).notes.join(" ")).toMatch(/not known here yet.*nothing keeps its clock/);
  });

  it("has times as people read them", () => {
    expect([0, 0.01, 0.05, 9.94, 9.96, 999.6, 9999, 12_345].map(fine)).toEqual(
      ["0 ms", "< 0.1 ms", "0.1 ms", "9.9 ms", "10 ms", "1000 ms", "9999 ms", "12.3 s"]);
  });
});

describe("a stream's stages over time", () => {
  const answer = (): Latency => ({
    step_s: 10, now_us: 2e15,
    relay: [
      { t_us: 2e15 - 5e6, stages: { encode: { p50_us: 11_000, p99_us: 2 } } },
      { t_us: 2e15 - 25e6, stages: { encode: { p50_us: 12_000, p99_us: 2 }, relay: { p50_us: 500, p99_us: 2 } } },
      { t_us: 2e15 - 9e9, stages: { encode: { p50_us: 1, p99_us: 2 } } }, { t_us: 3e15, stages: {} },
    ],
    viewers: [],
  });

  it("stand at their steps, with gaps where nothing is told", () => {
    const [encode, relay] = medianLines(answer().relay, ["encode", "relay"], answer());
    expect([encode!.length, encode!.slice(-4), relay!.slice(-4)]).toEqual([60, [null, 12, null, 11], [null, 0.5, null, null]]);
    expect(encode!.filter((value) => value !== null)).toHaveLength(2);
  });

  it("are stacked without closing the gaps", () => {
    expect(stackOf([[1, null, 2], [3, null, null], [5, null, 1]])).toEqual([[1, null, 2], [4, null, 2], [9, null, 3]]);
    expect(stackOf([[], []])).toEqual([[], []]);
  });

  it("say how many viewers told", () => {
    expect(reportsText([])).toContain("No viewer tells");
    expect(reportsText([{ t_us: 1, reports: 1, stages: { total: { p50_us: 31_000, p99_us: 80_000 } } }])).toContain(
      "1 report in the newest step. From capture to the screen half of the pictures took 31 ms, 99 of 100 took 80 ms at most.");
  });
});

it("leaves the wish to tell out of an address", () => {
  expect(["", "?report=1", "?engine=mse&report=1&token=a%26"].map(withoutReport)).toEqual(["", "", "?engine=mse&token=a%26"]);
});
