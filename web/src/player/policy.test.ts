import { describe, expect, it } from "vitest";
import { DelayMeter } from "./delay";
import { EdgeControl, LiveEdge, PictureDuration, type Playback, RunningClock, admit, backOff, choose, isTooFar, trimPoint } from "./policy";

describe("LiveEdge", () => {
  it("is settled once a backlog has been read, and measures from there", () => {
    const edge = new LiveEdge();
    // Two seconds of media in 100 ms, then real time.
    for (let i = 0; i <= 50; i++) edge.observe(1000 + i * 2, i * 40);
    expect(edge.settled(1100)).toBe(false);
    for (let i = 1; i <= 10; i++) edge.observe(1100 + i * 40, 2000 + i * 40);
    expect(edge.settled(1500)).toBe(true);
    expect(edge.behind(1500, 2400)).toBe(0);
    expect(edge.behind(1500, 2100)).toBe(300);
  });

  it("knows nothing before an arrival, and after a reset", () => {
    const edge = new LiveEdge();
    expect(edge.behind(0, 0)).toBeNull();
    edge.observe(0, 0);
    edge.reset();
    expect([edge.behind(0, 0), edge.settled(1e6)]).toEqual([null, false]);
  });

  it("follows a clock that runs away", () => {
    const edge = new LiveEdge();
    // The publisher's clock is 0.1 % slow: transit grows without end, and must not count as delay for long.
    for (let t = 0; t < 60_000; t += 40) edge.observe(t, t * 0.999);
    expect(edge.behind(60_000, 60_000 * 0.999)!).toBeLessThan(25);
  });
});

describe("admit", () => {
  it("decodes while the decoder keeps up", () => {
    expect(admit(2, { key: false, reference: true }, 50)).toBe("decode");
    expect(admit(10, { key: true, reference: true }, 50)).toBe("decode");
  });

  it("begins anew with a key frame and leaves out what nobody refers to, when it does not", () => {
    expect(admit(30, { key: true, reference: true }, 50)).toBe("restart");
    expect(admit(30, { key: false, reference: false }, 50)).toBe("skip");
    expect(admit(30, { key: false, reference: true }, 50)).toBe("decode");
  });
});

describe("choose", () => {
  const waiting = [0, 40, 80].map((ms) => ({ ptsUs: ms * 1000, decodedMs: 1000 + ms / 40 }));

  it("shows the newest at once without sound", () => {
    expect(choose(waiting, 1003, null)).toBe(2);
    expect(choose([], 1003, null)).toBe(-1);
  });

  it("follows the sound, but holds nothing for more than 200 ms", () => {
    expect(choose(waiting, 1003, -50_000)).toBe(-1);
    expect(choose(waiting, 1003, 50_000)).toBe(1);
    expect(choose(waiting, 1300, -50_000)).toBe(2);
  });
});

describe("EdgeControl", () => {
  const at = (p: Partial<Playback>): Playback => ({
    nowMs: 0, currentTime: 10, bufferedStart: 10, bufferedEnd: 10.1, settled: true, starved: false, late: 0, ...p,
  });

  it("jumps to the edge as soon as the join's backlog is read", () => {
    const control = new EdgeControl(0.1);
    expect(control.steer(at({ settled: false, bufferedEnd: 13 }))).toEqual({ rate: 1 });
    expect(control.steer(at({ nowMs: 200, bufferedEnd: 14 }))).toEqual({ seekTo: 13.9 });
  });

  it("does not wait for ever for a backlog to end", () => {
    const control = new EdgeControl(0.1);
    control.steer(at({ settled: false, bufferedEnd: 13 }));
    expect(control.steer(at({ nowMs: 700, settled: false, bufferedEnd: 15 }))).toHaveProperty("seekTo");
  });

  it("catches up from any join within two seconds", () => {
    for (const backlog of [0.5, 3, 8, 30]) {
      const control = new EdgeControl(0.1);
      let currentTime = 10;
      let end = 10;
      for (let nowMs = 0; nowMs <= 2000; nowMs += 50) {
        // The backlog arrives at ten times its rate, then live.
        end = Math.min(10 + nowMs / 100, 10 + backlog + nowMs / 1000);
        const settled = nowMs - (backlog / 9) * 1000 > 150;
        const order = control.steer(at({ nowMs, currentTime, bufferedEnd: end, settled }));
        if ("seekTo" in order) currentTime = order.seekTo;
        else currentTime = Math.min(end, currentTime + 0.05 * order.rate);
      }
      expect(end - currentTime, `backlog ${backlog} s`).toBeLessThan(1.2);
      if (backlog < 10) expect(end - currentTime, `backlog ${backlog} s`).toBeLessThan(0.35);
    }
  });

  it("goes faster when a little behind, jumps when far behind, and into a range ahead", () => {
    const control = new EdgeControl(0.1);
    control.steer(at({}));
    const little = control.steer(at({ nowMs: 50, bufferedEnd: 10.4 }));
    expect("rate" in little && little.rate > 1.02 && little.rate <= 1.1).toBe(true);
    expect(control.steer(at({ nowMs: 100, bufferedEnd: 11.5 }))).toEqual({ seekTo: 11.4 });
    expect(control.steer(at({ nowMs: 150, bufferedStart: 20, bufferedEnd: 20.3 }))).toEqual({ seekTo: 20.2 });
  });

  it("lets playback wait for pictures that come after their time", () => {
    const control = new EdgeControl();
    control.steer(at({}));
    expect(control.steer(at({ nowMs: 50, bufferedEnd: 9.9, late: 0.1 }))).toEqual({ rate: 0.9 });
    expect(control.steer(at({ nowMs: 100, bufferedStart: 5, bufferedEnd: 9.3, late: 0.7 }))).toHaveProperty("seekTo");
    expect(control.steer(at({ nowMs: 150, late: 0 }))).toEqual({ rate: 1 });
  });

  it("keeps more in hand after it starved, and forgets that in time", () => {
    const control = new EdgeControl(0.1);
    control.steer(at({}));
    control.steer(at({ nowMs: 50, starved: true }));
    control.steer(at({ nowMs: 100, starved: true }));
    expect(control.target).toBeCloseTo(0.14);
    for (let nowMs = 1000; nowMs < 200_000; nowMs += 1000) control.steer(at({ nowMs }));
    expect(control.target).toBeCloseTo(0.1);
  });
});

describe("DelayMeter", () => {
  it("gives percentiles over the last second, and nothing when capture times stop", () => {
    const meter = new DelayMeter();
    expect(meter.summary(0)).toBeNull();
    for (let i = 1; i <= 100; i++) meter.shown(i * 10, 1e6 + i * 1000, 1e6, "picture");
    expect(meter.summary(1000)).toEqual({ last: 100, p50: 50, p95: 95, source: "picture" });
    expect(meter.summary(3500)).toBeNull();
  });
});

describe("backOff", () => {
  it("doubles from 250 ms to 3 s", () => {
    expect([0, 1, 2, 3, 4, 99].map(backOff)).toEqual([250, 500, 1000, 2000, 3000, 3000]);
  });
});

describe("trimPoint", () => {
  it("keeps the GOP that is played", () => {
    expect(trimPoint([10, 12, 14, 16], 15)).toBe(14);
    expect(trimPoint([10, 20], 19.9)).toBe(10);
    expect(trimPoint([20], 15)).toBeNull();
    expect(trimPoint([], 15)).toBeNull();
  });
});

describe("PictureDuration", () => {
  it("is long enough that a browser takes the next picture of any steady rhythm for a continuation", () => {
    for (const rhythm of [[0.04], [1 / 60], [0.033, 0.1], [0.04, 0.04, 0.04, 3], [0.2, 0.04]]) {
      const duration = new PictureDuration();
      let told = duration.told;
      for (let i = 0; i < 200; i++) {
        const step = rhythm[i % rhythm.length]!;
        if (i >= rhythm.length) expect(isTooFar(step, told)).toBe(false);
        duration.add(step);
        told = duration.told;
      }
    }
  });

  it("takes no notice of a picture that a player has put in front", () => {
    const duration = new PictureDuration();
    duration.add(0);
    duration.add(0.0005);
    expect(isTooFar(0.2, duration.told)).toBe(false);
    expect(duration.shortest).toBe(0);
    duration.add(0.04);
    duration.add(1);
    expect([duration.shortest, duration.told]).toEqual([0.04, 1]);
  });

  it("lets a few pictures be missing", () => {
    const duration = new PictureDuration();
    for (let i = 0; i < 100; i++) duration.add(1 / 60);
    expect(isTooFar(0.4, duration.told)).toBe(false);
  });

  it("forgets a long step after a while", () => {
    const duration = new PictureDuration();
    duration.add(4);
    for (let i = 0; i < 100; i++) duration.add(0.04);
    expect(isTooFar(4, duration.told)).toBe(true);
  });
});

describe("RunningClock", () => {
  it("goes on while ticks are a little late", () => {
    const clock = new RunningClock(100);
    for (const nowMs of [0, 100, 900, 1000, 1950]) clock.tick(nowMs);
    expect(clock.at(2000)).toBe(2000);
  });

  it("stands still while the page does not run, also for what comes before the late tick", () => {
    const clock = new RunningClock(100);
    clock.tick(5000);
    expect(clock.at(5080)).toBe(5080);
    // Twenty seconds later a picture is told before the timer is.
    expect(clock.at(25_000)).toBe(5100);
    clock.tick(25_010);
    expect(clock.at(25_010)).toBe(5100);
    clock.tick(25_110);
    expect(clock.at(25_160)).toBe(5250);
    // And once more.
    clock.tick(60_000);
    expect(clock.at(60_010)).toBe(5310);
  });
});
