import { describe, expect, it } from "vitest";
import { random } from "../testing/ts_builder";
import { StageExchange, parseRelayAnswer } from "./exchange";
import { StageLedger, type StageReport } from "./ledger";

const UTC_US = 1_700_000_000_000_000;

/** A viewer of pictures of 50 a second, at a server that answers as it is told. */
class Bench {
  readonly asked: (number | null)[] = [];
  readonly told: StageReport[] = [];
  readonly ledger = new StageLedger();
  name = "stage";
  answer: () => unknown = () => ({ now_us: 0, edges_us: [1000, 10_000], pictures: [] });
  status: number | null = 204;
  private nowMs = 0;
  readonly exchange = new StageExchange({
    name: () => this.name,
    stages: () => this.ledger,
    offset: () => ({ offsetUs: UTC_US, roundTripMs: 1 }),
    ask: (_, afterUs) => {
      this.asked.push(afterUs);
      return Promise.resolve(this.answer());
    },
    tell: (_, report) => {
      this.told.push(report);
      return Promise.resolve(this.status);
    },
  });

  /** Lets so many seconds pass, in ticks of half a second. */
  async pass(seconds: number): Promise<void> {
    for (let tick = 0; tick < seconds * 2; tick++) {
      for (let picture = 0; picture < 25; picture++) {
        const receivedMs = this.nowMs + picture * 20 + 5;
        this.ledger.shown(this.ledger.arrived(UTC_US + (receivedMs - 5) * 1000, null, receivedMs, receivedMs), receivedMs + 1, receivedMs + 3);
      }
      this.nowMs += 500;
      this.exchange.tick(this.nowMs);
      await Promise.resolve();
      await Promise.resolve();
    }
  }

  report(agreed: boolean): void {
    this.exchange.report(agreed, this.nowMs);
  }
}

describe("what the page asks and tells", () => {
  it("is nothing while nobody looks or has agreed", async () => {
    const bench = new Bench();
    await bench.pass(60);
    expect([bench.asked, bench.told, bench.exchange.state]).toEqual([[], [], "off"]);
  });

  it("asks once in two seconds while somebody looks, for each picture once", async () => {
    const bench = new Bench();
    bench.answer = () => ({ pictures: [{ captured_us: UTC_US + bench.asked.length, relay_received: 1, relay_flushed: 3 }] });
    bench.exchange.looking = true;
    await bench.pass(10);
    expect(bench.asked).toEqual([null, 1, 2, 3, 4].map((after) => after && UTC_US + after));
    bench.exchange.looking = false;
    await bench.pass(10);
    expect([bench.asked.length, bench.told]).toEqual([5, []]);
  });

  it("asks for everything again where nothing is new: the sender's clock may have been set back", async () => {
    const bench = new Bench();
    bench.answer = () => ({ pictures: bench.asked.length === 1 ? [{ captured_us: UTC_US }] : [] });
    bench.exchange.looking = true;
    await bench.pass(6);
    expect(bench.asked).toEqual([null, UTC_US, null]);
  });

  it("asks a server that does not tell ever less often", async () => {
    const bench = new Bench();
    bench.answer = () => 404;
    bench.exchange.looking = true;
    await bench.pass(60);
    expect(bench.asked).toHaveLength(4);
    bench.name = "other";
    await bench.pass(1);
    expect(bench.asked).toHaveLength(5);
  });

  it("tells counts once in ten seconds, of each picture once", async () => {
    const bench = new Bench();
    await bench.pass(20);
    bench.report(true);
    await bench.pass(30);
    expect(bench.exchange.state).toBe("on");
    // The first one is of what was shown since the viewer agreed, up to three seconds ago.
    expect(bench.told.map((report) => report.total![1])).toEqual([350, 500, 500]);
    expect(bench.told[2]).toEqual({ network: [0, 500, 0], decode: [500, 0, 0], display: [0, 500, 0], total: [0, 500, 0] });
    bench.report(false);
    await bench.pass(30);
    expect([bench.told.length, bench.exchange.state]).toEqual([3, "off"]);
  });

  it("tells a busy server less often, and one that takes nothing no more", async () => {
    const bench = new Bench();
    bench.report(true);
    bench.status = 429;
    await bench.pass(100);
    expect([bench.told.length, bench.exchange.state]).toEqual([3, "slowed"]);
    bench.status = 204;
    await bench.pass(60);
    expect([bench.told.length, bench.exchange.state]).toEqual([4, "on"]);
    bench.status = 404;
    await bench.pass(100);
    expect([bench.told.length, bench.exchange.state]).toEqual([5, "refused"]);
    bench.name = "other";
    await bench.pass(100);
    expect([bench.told.length, bench.exchange.state]).toEqual([6, "refused"]);
  });

  it("tells nothing to a server without buckets, and nothing where nothing is shown", async () => {
    const bench = new Bench();
    bench.answer = () => ({ pictures: [], edges_us: [2, 1] });
    bench.report(true);
    await bench.pass(60);
    expect(bench.told).toEqual([]);
    const idle = new Bench();
    idle.report(true);
    for (let ms = 0; ms < 60_000; ms += 500) {
      idle.exchange.tick(ms);
      await Promise.resolve();
    }
    expect(idle.told).toEqual([]);
  });
});

describe("an answer about the relay's stages", () => {
  it("is read, with the sending where it is known", () => {
    const one = { captured_us: 5, relay_first_byte: 1, relay_received: 2, relay_released: 2.5, relay_flushed: 3, relay_sent: 4 };
    const answer = { pictures: [one, { ...one, relay_sent: undefined }, { captured_us: 6 }, { relay_sent: 1 }, null, 7], edges_us: [1, 2] };
    expect(parseRelayAnswer(answer)).toEqual({
      pictures: [
        { capturedUs: 5, received: 2, released: 2.5, sent: 4 }, { capturedUs: 5, received: 2, released: 2.5, sent: 3 }, { capturedUs: 6, received: null, released: null, sent: null },
      ],
      edgesUs: [1, 2],
    });
    expect(parseRelayAnswer({ pictures: Array(5000).fill(one) })).toMatchObject({ pictures: { length: 1200 }, edgesUs: null });
  });

  it("may be anything", () => {
    for (const odd of [null, 404, "x", [], {}, { pictures: 5 }, { pictures: null }]) expect(parseRelayAnswer(odd)).toBeNull();
    for (const edges of [[], [1, 1], [NaN], ["1"], Array.from({ length: 65 }, (_, at) => at)]) {
      expect(parseRelayAnswer({ pictures: [], edges_us: edges })?.edgesUs).toBeNull();
    }
    const ledger = new StageLedger();
    for (let seed = 1; seed <= 300; seed++) {
      const next = random(seed);
      const value = (): unknown => [next() * 1e18, -next(), "4", null, [], {}, 1e308, true][Math.floor(next() * 8)];
      const pictures = Array.from({ length: 20 }, () => ({ captured_us: value(), relay_received: value(), relay_sent: value() }));
      for (const picture of parseRelayAnswer({ pictures })!.pictures) ledger.relay(picture);
    }
    expect(ledger.summary(0, null).total).toBeNull();
  });
});
