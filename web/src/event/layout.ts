/** Where the pictures of an event go: pure arithmetic, in CSS pixels. */

/** The picture of a stream that is not known yet has this shape. */
export const ASPECT = 16 / 9;
/** Narrower than this a window has one column. */
const ONE_COLUMN_PX = 640;
/** Where the pictures of a grid would be narrower, it does not fit into its window: the page scrolls. */
const LEAST_PX = 220;
/** Widths of small pictures that are tried beside a large one: shares of the window's, within bounds. */
const SMALL_SHARES = [0.28, 0.24, 0.2, 0.17];
const SMALLEST_PX = 150;
const SMALL_MOST_PX = 460;

export interface Space {
  width: number;
  height: number;
  /** Between pictures. */
  gap: number;
  /** What stands below each picture. */
  bar: number;
}

/** Columns and widths. `large` is null where all are alike. */
export interface Layout {
  kind: "column" | "grid" | "side" | "below";
  columns: number;
  /** Width of each picture that is not large. */
  small: number;
  large: number | null;
}

const heightOf = (width: number): number => width / ASPECT;
const widthOf = (height: number): number => height * ASPECT;

/** All alike, as large as the space allows. */
export function grid(count: number, space: Space): Layout {
  const { width, height, gap, bar } = space;
  if (width < ONE_COLUMN_PX || count < 1) return { kind: "column", columns: 1, small: width, large: null };
  let best: Layout | null = null;
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const across = (width - gap * (columns - 1)) / columns;
    const down = widthOf((height - gap * (rows - 1)) / rows - bar);
    const small = Math.floor(Math.min(across, down));
    if (small > (best?.small ?? 0)) best = { kind: "grid", columns, small, large: null };
  }
  if (best && best.small >= LEAST_PX) return best;
  const columns = Math.max(1, Math.min(count, Math.floor((width + gap) / (LEAST_PX + gap))));
  return { kind: "grid", columns, small: Math.floor((width - gap * (columns - 1)) / columns), large: null };
}

/** One large, the others small: beside it or below it, whichever shows more. */
export function withLarge(count: number, space: Space): Layout {
  const { width, height, gap, bar } = space;
  const others = count - 1;
  if (others < 1) return { ...grid(count, space), large: grid(1, space).small };
  if (width < ONE_COLUMN_PX) {
    const columns = others === 1 ? 1 : 2;
    return { kind: "column", columns, small: Math.floor((width - gap * (columns - 1)) / columns), large: width };
  }
  let best: { layout: Layout; score: number } | null = null;
  const look = (layout: Layout): void => {
    // The large one counts most: the small ones are there so that one is not missed.
    const score = (layout.large ?? 0) ** 2 + (others * layout.small ** 2) / 2;
    if (layout.large !== null && layout.large > layout.small && score > (best?.score ?? 0)) best = { layout, score };
  };
  // The smallest is for windows in which nothing else fits.
  const widths = SMALL_SHARES.map((share) => Math.round(Math.min(SMALL_MOST_PX, Math.max(SMALLEST_PX, share * width))));
  for (const small of [...widths, SMALLEST_PX]) {
    if (small === SMALLEST_PX && best !== null) break;
    const whole = heightOf(small) + bar;
    const inColumn = Math.floor((height + gap) / (whole + gap));
    if (inColumn >= 1) {
      const columns = Math.ceil(others / inColumn);
      const large = Math.floor(Math.min(width - columns * (small + gap), widthOf(height - bar)));
      look({ kind: "side", columns, small, large });
    }
    const inRow = Math.floor((width + gap) / (small + gap));
    if (inRow >= 1) {
      const rows = Math.ceil(others / inRow);
      const large = Math.floor(Math.min(width, widthOf(height - rows * (whole + gap) - bar)));
      look({ kind: "below", columns: Math.min(inRow, others), small, large });
    }
  }
  if (best !== null) return (best as { layout: Layout }).layout;
  // A window so low that nothing fits: the large one fills its width, and the page scrolls.
  const columns = Math.max(1, Math.min(others, Math.floor((width + gap) / (SMALLEST_PX + gap))));
  return { kind: "below", columns, small: SMALLEST_PX, large: width };
}
