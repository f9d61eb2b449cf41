import "./style.css";
import { dashboard } from "./ui/dashboard";
import { watch } from "./ui/watch";

const root = document.getElementById("app");
if (root) {
  const name = streamName(location.pathname);
  if (name !== null) watch(root, name, new URLSearchParams(location.search));
  else dashboard(root);
}

/** The name in `/watch/NAME`; null on other pages. */
function streamName(path: string): string | null {
  const match = /^\/watch\/([^/]+)\/?$/.exec(path);
  if (!match) return null;
  try {
    return decodeURIComponent(match[1]!);
  } catch {
    return match[1]!;
  }
}
