import "./style.css";
import { pageName } from "./root";
import { dashboard } from "./ui/dashboard";
import { streamPage } from "./ui/stream";
import { watch } from "./ui/watch";

const root = document.getElementById("app");
if (root) {
  const watched = pageName("watch", location.pathname);
  const looked = pageName("stream", location.pathname);
  if (watched !== null) watch(root, watched, new URLSearchParams(location.search));
  else if (looked !== null) streamPage(root, looked);
  else dashboard(root);
}
