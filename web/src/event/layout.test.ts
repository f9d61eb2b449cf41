import { describe, expect, it } from "vitest";
import { ASPECT, grid, type Layout, type Space, withLarge } from "./layout";

const laptop: Space = { width: 1240, height: 640, gap: 12, bar: 44 };
const phone: Space = { width: 332, height: 620, gap: 12, bar: 48 };

/** The height that a grid takes. */
function heightOfGrid({ columns, small }: Layout, count: number, { gap, bar }: Space): number {
  const rows = Math.ceil(count / columns);
  return rows * (small / ASPECT + bar) + (rows - 1) * gap;
}

describe("streams side by side", () => {
  it("fit the window, however many they are", () => {
    for (let count = 1; count <= 12; count++) {
      const layout = grid(count, laptop);
      expect(layout.columns * layout.small + (layout.columns - 1) * laptop.gap).toBeLessThanOrEqual(laptop.width);
      expect(heightOfGrid(layout, count, laptop)).toBeLessThanOrEqual(laptop.height);
      expect(layout.small).toBeGreaterThan(200);
    }
  });

  it("have the columns that make them largest", () => {
    expect(grid(1, laptop)).toMatchObject({ columns: 1 });
    expect(grid(2, laptop)).toMatchObject({ columns: 2 });
    expect(grid(4, laptop)).toMatchObject({ columns: 2 });
    expect(grid(2, { ...laptop, width: 700, height: 1000 })).toMatchObject({ columns: 1 });
  });

  it("have one column on a phone", () => {
    expect(grid(3, phone)).toEqual({ kind: "column", columns: 1, small: 332, large: null });
  });

  it("are not made tiny where the window is too low: the page scrolls", () => {
    for (const count of [1, 6, 30]) {
      const layout = grid(count, { ...laptop, height: 150 });
      expect(layout.small).toBeGreaterThanOrEqual(220);
      expect(layout.columns * layout.small + (layout.columns - 1) * laptop.gap).toBeLessThanOrEqual(laptop.width);
    }
  });
});

describe("one large stream", () => {
  it("leaves room for the others, within the window", () => {
    for (let count = 2; count <= 8; count++) {
      for (const space of [laptop, { ...laptop, width: 900, height: 1100 }, { ...laptop, width: 2500, height: 1300 }]) {
        const { kind, columns, small, large } = withLarge(count, space);
        const rows = Math.ceil((count - 1) / columns);
        const others = rows * (small / ASPECT + space.bar) + (rows - 1) * space.gap;
        const largest = large! / ASPECT + space.bar;
        const [width, height] = kind === "side"
          ? [large! + columns * (small + space.gap), Math.max(largest, others)]
          : [Math.max(large!, columns * small + (columns - 1) * space.gap), largest + space.gap + others];
        expect(width).toBeLessThanOrEqual(space.width);
        expect(height).toBeLessThanOrEqual(space.height + 0.001);
        expect(large!).toBeGreaterThan(small * 1.5);
      }
    }
  });

  it("has the others beside it in a wide window and below it in a high one", () => {
    expect(withLarge(3, laptop).kind).toBe("side");
    expect(withLarge(3, { ...laptop, width: 900, height: 1200 }).kind).toBe("below");
  });

  it("fills a phone's width", () => {
    expect(withLarge(2, phone)).toEqual({ kind: "column", columns: 1, small: 332, large: 332 });
    expect(withLarge(4, phone)).toEqual({ kind: "column", columns: 2, small: 160, large: 332 });
  });

  it("fills the width of a window that is too low for all of it", () => {
    expect(withLarge(4, { ...laptop, height: 60 }).large).toBe(1240);
  });

  it("is alone where there is one stream", () => {
    expect(withLarge(1, laptop).large).toBe(grid(1, laptop).small);
  });
});
