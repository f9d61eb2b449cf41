/** The control bar's icons, drawn here: nothing is loaded from outside. */
import { svg } from "./dom";

const PATHS = {
  muted: "M4 9v6h4l5 4V5L8 9H4zM16 9l5 6M21 9l-5 6",
  sound: "M4 9v6h4l5 4V5L8 9H4zM16 8.5a5 5 0 0 1 0 7M18.5 6a8.5 8.5 0 0 1 0 12",
  fullscreen: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  window: "M9 4H5a1 1 0 0 0-1 1v14a1 1 0 0 0 1 1h14a1 1 0 0 0 1-1v-4M13 4h7v7M20 4l-9 9",
  play: "M7 4.5v15l12-7.5z",
  pause: "M8 5v14M16 5v14",
  info: "M12 11v6M12 7.5v.01M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z",
} as const;

export type IconName = keyof typeof PATHS;

export function icon(name: IconName): SVGElement {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}
