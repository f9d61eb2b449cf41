import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Poller, type Shown } from "./poll";

class FakePage implements Shown {
  hidden = false;
  private listeners: (() => void)[] = [];
  addEventListener(_: "visibilitychange", listener: () => void): void {
    this.listeners.push(listener);
  }
  show(shown: boolean): void {
    this.hidden = !shown;
    for (const listener of this.listeners) listener();
  }
}

describe("asking the server", () => {
  let page: FakePage;
  let asked: number;
  beforeEach(() => {
    vi.useFakeTimers();
    page = new FakePage();
    asked = 0;
  });
  afterEach(() => {
    vi.useRealTimers();
  });
  const ask = async (): Promise<void> => {
    asked += 1;
  };

  it("is done at once and then in its rhythm", async () => {
    new Poller(1000, ask, page).start();
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toBe(1);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toBe(11);
  });

  it("rests while the page is hidden and goes on when it is shown", async () => {
    new Poller(1000, ask, page).start();
    await vi.advanceTimersByTimeAsync(2000);
    page.show(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toBe(3);
    page.show(true);
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toBe(4);
    // Shown and hidden quickly it does not ask more often.
    for (let i = 0; i < 20; i++) {
      page.show(false);
      page.show(true);
      await vi.advanceTimersByTimeAsync(100);
    }
    expect(asked).toBeLessThanOrEqual(6);
  });

  it("waits for an answer that takes long", async () => {
    let answer: () => void = () => undefined;
    const slow = (): Promise<void> => {
      asked += 1;
      return new Promise((resolve) => (answer = resolve));
    };
    new Poller(1000, slow, page).start();
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked).toBe(1);
    answer();
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toBe(2);
  });

  it("asks again where something was changed before the answer came", async () => {
    let answer: () => void = () => undefined;
    const slow = (): Promise<void> => {
      asked += 1;
      return new Promise((resolve) => (answer = resolve));
    };
    const poller = new Poller(10_000, slow, page);
    poller.start();
    await vi.advanceTimersByTimeAsync(100);
    poller.soon();
    answer();
    await vi.advanceTimersByTimeAsync(250);
    expect(asked).toBe(2);
  });

  it("rests too where the page is hidden before an answer comes, or from the beginning", async () => {
    let answer: () => void = () => undefined;
    const slow = (): Promise<void> => {
      asked += 1;
      return new Promise((resolve) => (answer = resolve));
    };
    page.hidden = true;
    new Poller(1000, slow, page).start();
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked).toBe(0);
    page.show(true);
    await vi.advanceTimersByTimeAsync(0);
    page.show(false);
    answer();
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked).toBe(1);
  });

  it("goes on more seldom while the page is hidden, where that is wanted", async () => {
    new Poller(1000, ask, page, 5000).start();
    await vi.advanceTimersByTimeAsync(2500);
    expect(asked).toBe(3);
    page.show(false);
    await vi.advanceTimersByTimeAsync(4000);
    expect(asked).toBe(3);
    await vi.advanceTimersByTimeAsync(20_500);
    expect(asked).toBe(8);
    page.show(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(asked).toBe(9);
  });

  it("waits as long as the answer says, and no longer than usual once the page is shown again", async () => {
    new Poller(1000, async () => ((asked += 1) === 1 ? 30_000 : undefined), page).start();
    await vi.advanceTimersByTimeAsync(29_900);
    expect(asked).toBe(1);
    await vi.advanceTimersByTimeAsync(1200);
    expect(asked).toBe(3);
    asked = 0;
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked).toBe(1);
    page.show(false);
    page.show(true);
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toBe(2);
  });

  it("ends where it is told to, whatever is shown later", async () => {
    new Poller(1000, async () => ((asked += 1) < 3), page).start();
    await vi.advanceTimersByTimeAsync(10_000);
    page.show(false);
    page.show(true);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toBe(3);
  });

  it("asks soon after something was changed, and not more often for that", async () => {
    const poller = new Poller(5000, ask, page);
    poller.start();
    await vi.advanceTimersByTimeAsync(1000);
    poller.soon();
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toBe(2);
    await vi.advanceTimersByTimeAsync(4900);
    expect(asked).toBe(2);
    await vi.advanceTimersByTimeAsync(200);
    expect(asked).toBe(3);
  });
});
