import { describe, expect, it } from "vitest";
import { type AudioUnit, Feed, type H264Config, type VideoConfig, type VideoUnit } from "../media/feed";
import { AUDIO_PID, TsBuilder, VIDEO_PID, ended, pes, picture } from "../testing/ts_builder";
import { Splice } from "./splice";

/** Another SPS than the builder's own: of another size. */
const OTHER_SETS = "6742c01ed9005005bb016a020202800000030080000032078c1924 68cb8cb2";
const STEP = 3600;
const START = 900_000;

interface Event {
  from: string;
  unit?: VideoUnit;
  sound?: AudioUnit;
  config?: VideoConfig;
}

/** Two streams of one clock with a key frame each tenth picture, whose units are noted with the feed that they passed. */
class Bench {
  readonly events: Event[] = [];
  readonly old = this.stream("old");
  readonly next = this.stream("next", OTHER_SETS);
  nowMs = 0;
  switched = 0;
  readonly splice = new Splice(this.old.feed, this.next.feed, () => this.nowMs, () => (this.switched += 1));

  private stream(from: string, sets?: string) {
    const note = (event: Omit<Event, "from">): number => this.events.push({ from, ...event });
    const feed = new Feed({
      tracks: () => undefined,
      videoConfig: (config) => note({ config }),
      video: (unit) => note({ unit }),
      audio: (sound) => note({ sound }),
    });
    const builder = new TsBuilder();
    feed.push(builder.tables("opus"));
    return {
      feed,
      /** Picture `number`, and the sound of its time. */
      push(number: number, key = number % 10 === 0, shift = 0): void {
        const stamp = START + shift + number * STEP;
        feed.push(builder.packets(VIDEO_PID, [pes(0xe0, stamp, stamp, ended(picture(key, 1, 300, sets)), true)], { random: key }));
        // 20 ms of Opus (configuration 31), two a picture.
        for (const half of [0, 1]) {
          const opus = new Uint8Array([0x7f, 0xe0, 3, 0xfc, 1, 2]);
          feed.push(builder.packets(AUDIO_PID, [pes(0xbd, stamp + half * 1800, stamp + half * 1800, opus, true)]));
        }
      },
    };
  }

  /** Which picture came from where, in order. */
  pictures(): string[] {
    const first = this.events.find((event) => event.unit)!.unit!.dtsUs;
    return this.events.filter((event) => event.unit).map(({ from, unit }) => `${from} ${(unit!.dtsUs - first) / 40_000}`);
  }
}

function range(from: string, first: number, end: number): string[] {
  return Array.from({ length: end - first }, (_, i) => `${from} ${first + i}`);
}

describe("Splice", () => {
  it("changes at the key frame that both have, the next stream ahead or behind", () => {
    for (const lead of [-3, -1, 0, 1, 3]) {
      const bench = new Bench();
      for (let number = 0; number < 30; number++) {
        bench.nowMs += 40;
        // The next stream begins at its newest key frame, all at once.
        if (number === 7) for (let early = 0; early <= 7 + lead; early++) bench.next.push(early);
        if (!bench.switched) bench.old.push(number);
        if (number > 7) bench.next.push(number + lead);
      }
      expect([lead, bench.switched]).toEqual([lead, 1]);
      const at = 10;
      expect(bench.pictures()).toEqual([...range("old", 0, at), ...range("next", at, 30 + lead)]);
      const units = bench.events.filter((event) => event.unit).map((event) => event.unit!);
      expect(units.filter((unit) => unit.reset)).toHaveLength(1);
      // The other parameters are announced right before the first picture that needs them.
      const index = bench.events.findIndex((event) => event.from === "next");
      expect(bench.events[index]!.config).toMatchObject({ codec: "h264" });
      expect((bench.events[index]!.config as H264Config).sps[3]).toBe(0x1e);
      expect(bench.events[index + 1]!.unit?.idr).toBe(true);
    }
  });

  it("has each packet of sound once", () => {
    for (const lead of [-2, 0, 2]) {
      const bench = new Bench();
      for (let number = 0; number < 20; number++) {
        if (number === 5) for (let early = 0; early <= 5 + lead; early++) bench.next.push(early);
        if (!bench.switched) bench.old.push(number);
        if (number > 5) bench.next.push(number + lead);
      }
      const times = bench.events.filter((event) => event.sound).map((event) => event.sound!.ptsUs);
      const steps = times.slice(1).map((time, i) => time - times[i]!);
      expect([...new Set(steps)]).toEqual([20_000]);
    }
  });

  it("lets the old stream go on where no key frame comes in time", () => {
    const bench = new Bench();
    for (let number = 0; number < 30; number++) {
      bench.nowMs += 40;
      bench.old.push(number);
      if (number === 5) bench.next.push(0);
      else if (number > 5) bench.next.push(number - 5, false);
    }
    expect(bench.switched).toBe(0);
    bench.splice.cancel();
    expect(bench.pictures()).toEqual(range("old", 0, 30));
  });

  it("takes nothing of a stream with another clock", () => {
    const bench = new Bench();
    for (let number = 0; number < 25; number++) {
      bench.nowMs += 40;
      bench.old.push(number);
      bench.next.push(number, number % 10 === 0, 90_000_000);
    }
    expect(bench.switched).toBe(0);
    bench.splice.cancel();
    expect(bench.pictures()).toEqual(range("old", 0, 25));
  });
});
