import "./style.css";
import "./event.css";
import { pageName } from "./root";
import { dashboard } from "./ui/dashboard";
import { eventPage } from "./ui/event";
import { streamPage } from "./ui/stream";
import { watch } from "./ui/watch";

const root = document.getElementById("app");
if (root) {
  const watched = pageName("watch", location.pathname);
  const attended = pageName("event", location.pathname);
  const looked = pageName("stream", location.pathname);
  if (watched !== null) watch(root, watched, new URLSearchParams(location.search));
  else if (attended !== null) eventPage(root, attended, new URLSearchParams(location.search));
  else if (looked !== null) streamPage(root, looked);
  else dashboard(root);
}
