/** A small curve of the last values. */
import { svg } from "./dom";

const WIDTH = 120;
const HEIGHT = 28;
const VALUES = 60;

export class Sparkline {
  private readonly values: number[] = [];
  private readonly line = svg("path", { class: "spark-line" });
  private readonly area = svg("path", { class: "spark-area" });
  readonly element: SVGElement;

  constructor(label = "bitrate over the last minute") {
    this.element = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", role: "img", "aria-label": label, preserveAspectRatio: "none" },
      this.area, this.line,
    );
  }

  push(value: number): void {
    this.values.push(value);
    if (this.values.length > VALUES) this.values.shift();
    this.draw();
  }

  /** Draws these values, of which it takes the newest. */
  show(values: readonly number[]): void {
    this.values.splice(0, this.values.length, ...values.slice(-VALUES));
    this.draw();
  }

  private draw(): void {
    const path = sparkPath(this.values, VALUES, WIDTH, HEIGHT);
    this.line.setAttribute("d", path);
    const startX = WIDTH - ((this.values.length - 1) * WIDTH) / (VALUES - 1);
    this.area.setAttribute("d", path && `${path}L${WIDTH},${HEIGHT}L${startX.toFixed(1)},${HEIGHT}Z`);
  }
}

/** SVG path of values, the newest at the right edge, zero at the bottom. Empty for less than two values. */
export function sparkPath(values: readonly number[], capacity: number, width: number, height: number): string {
  if (values.length < 2) return "";
  const top = Math.max(...values, 1) * 1.15;
  const points = values.map((value, i) => {
    const x = width - ((values.length - 1 - i) * width) / (capacity - 1);
    const y = height - (value / top) * height;
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return `M${points.join("L")}`;
}
