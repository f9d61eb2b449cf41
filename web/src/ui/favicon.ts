/** The page's icon with a number on it: what a row of tabs shows of a page that lies behind others. */
import { ROOT } from "../root";

let shown = 0;

/** The picture of a number, as an address. */
export function numberIcon(count: number): string {
  const text = count > 9 ? "9+" : String(count);
  const size = text.length > 1 ? 17 : 22;
  const picture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#c0323a"/>`
    + `<text x="16" y="${16 + size * 0.36}" font-family="sans-serif" font-weight="700" font-size="${size}" text-anchor="middle" fill="#fff">${text}</text></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(picture)}`;
}

/** Shows the number of alarms in the page's icon; none with 0. */
export function showFavicon(count: number): void {
  if (count === shown) return;
  shown = count;
  const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  if (link) link.href = count > 0 ? numberIcon(count) : `${ROOT}assets/favicon.svg`;
}
