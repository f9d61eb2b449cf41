import "./style.css";
import "./event.css";
import "./crew.css";
import "./sheet.css";
import "./cluster.css";
import { isPage, pageName } from "./root";
import { clusterPage } from "./ui/cluster";
import { crewPage } from "./ui/crew";
import { dashboard } from "./ui/dashboard";
import { eventPage } from "./ui/event";
import { sheetPage } from "./ui/sheet";
import { streamPage } from "./ui/stream";
import { watch } from "./ui/watch";

const root = document.getElementById("app");
if (root) {
  const watched = pageName("watch", location.pathname);
  const attended = pageName("event", location.pathname);
  const operated = pageName("crew", location.pathname);
  const looked = pageName("stream", location.pathname);
  if (watched !== null) watch(root, watched, new URLSearchParams(location.search));
  else if (attended !== null) eventPage(root, attended, new URLSearchParams(location.search));
  else if (operated !== null) (new URLSearchParams(location.search).has("sheet") ? sheetPage : crewPage)(root, operated);
  else if (looked !== null) streamPage(root, looked);
  else if (isPage("cluster", location.pathname)) clusterPage(root);
  else dashboard(root);
}
