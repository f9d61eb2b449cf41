import "./style.css";
import { dashboard } from "./ui/dashboard";
import { streamPage } from "./ui/stream";
import { watch } from "./ui/watch";

const root = document.getElementById("app");
if (root) {
  const watched = streamName("watch", location.pathname);
  const looked = streamName("stream", location.pathname);
  if (watched !== null) watch(root, watched, new URLSearchParams(location.search));
  else if (looked !== null) streamPage(root, looked);
  else dashboard(root);
}

/** The name in `/PAGE/NAME`; null on other pages. */
function streamName(page: "watch" | "stream", path: string): string | null {
  const match = new RegExp(`^/${page}/([^/]+)/?$`).exec(path);
  if (!match) return null;
  try {
    return decodeURIComponent(match[1]!);
  } catch {
    return match[1]!;
  }
}
