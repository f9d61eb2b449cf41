/**
 * The folder in which the server's addresses lie, with a slash at its end: "/", or "/tv/" behind a proxy's folder. The script
 * lies in its folder assets, whatever page has loaded it.
 */
export function rootOf(script: string): string {
  const url = new URL("../", script);
  return url.protocol.startsWith("http") ? url.pathname : "/";
}

export const ROOT = rootOf(import.meta.url);

/** Whether `path` is that of a page without a name below `root`. */
export function isPage(page: "cluster", path: string, root: string = ROOT): boolean {
  return path === `${root}${page}`;
}

/** The name in `PAGE/NAME` below `root`; null on other pages. */
export function pageName(page: "watch" | "stream" | "event" | "crew", path: string, root: string = ROOT): string | null {
  if (!path.startsWith(root)) return null;
  const match = new RegExp(`^${page}/([^/]+)/?$`).exec(path.slice(root.length));
  if (!match) return null;
  try {
    return decodeURIComponent(match[1]!);
  } catch {
    return match[1]!;
  }
}
