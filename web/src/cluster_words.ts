/** What the page of a cluster says, in the words of docs/cluster.md. */
import type { Cluster, ClusterNode, ClusterStream, Drain, Pull, Registry } from "./cluster_api";

/** A line about something that is wrong, and what to do about it. */
export interface Trouble {
  what: string;
  todo: string;
}

/** How the registry does, in a few words. */
export function registryText(registry: Registry): string {
  const { heard, server, bucket } = registry;
  if (heard) return `The registry is heard${server ? ` at ${server}` : ""}, bucket ${bucket}.`;
  return `What runs goes on without the registry: streams are found by what was heard last, and publishers are let in where they come.`;
}

const ADVICE: [RegExp, (bucket: string) => string][] = [
  [/authori[sz]ation|credential/i, () => "Check the user and the password in nats, or credentials_file, in the server's configuration."],
  [/certificate|unknownissuer|tls/i, () => "The certificate of NATS is not trusted: name the authority that has signed it in nats_ca."],
  [/no news/i, (bucket) => `NATS has no leader for the bucket, or the user may not write to it: see “nats stream info KV_${bucket}”.`],
  [/no bucket/i, (bucket) => `Let the user make the bucket, or make it by hand, without a TTL: nats kv add ${bucket} --history=1 --replicas=3`],
];

/** What is wrong with the cluster as this server sees it, the worst first; before that, how far it is emptied. */
export function troubles({ registry, drain, unread = [] }: Cluster): Trouble[] {
  const emptied = drainText(drain);
  const found: Trouble[] = emptied ? [emptied] : [];
  if (registry && !registry.heard) {
    const error = registry.error ?? "no answer has come yet";
    const advice = ADVICE.find(([pattern]) => pattern.test(error))?.[1](registry.bucket);
    found.push({ what: `The registry is not heard: ${error}`, todo: advice ?? "See whether NATS runs and can be reached. The server tries again by itself, at most 2 s later." });
  }
  if (registry?.twin) {
    found.push({
      what: "Another server of the cluster has the same node name as this one.",
      todo: "Each of the two takes the other's streams. Change node in one of the two configurations.",
    });
  }
  if (registry && unread.length > 0) {
    const [one] = unread;
    found.push({
      what: unread.length === 1 ? `An entry of the bucket is not read, that of ${one!.name}.` : `${unread.length} entries of the bucket are not read.`,
      todo: `Another program writes into the bucket, or a newer version of Glassline. The entries are left as they are, and their streams cannot be published. Bring all servers to one version, or remove an entry: nats kv del ${registry.bucket} stream/${one!.name}`,
    });
  }
  return found;
}

/** How a server is, and the look of that word. */
export function nodeState({ alive, leaving, draining }: ClusterNode): { word: string; className: string } {
  if (!alive) return { word: "Away", className: "badge away" };
  if (draining && !leaving) return { word: "Draining", className: "badge leaving" };
  return leaving ? { word: "Leaving", className: "badge leaving" } : { word: "Alive", className: "badge live" };
}

/** The way that a stream takes to the server that answers. */
export function wayText(stream: ClusterStream, pull: Pull | undefined, here: string): string {
  if (stream.node === here) return "has its publisher here";
  if (pull === undefined) return "is not pulled here";
  const { node, hops } = pull;
  if (node === null) return "does not come at the moment";
  const way = [stream.node];
  if (node !== stream.node) {
    if (hops !== null && hops > 2) way.push("…");
    way.push(node);
  }
  return [...way, "here"].join(" → ");
}

/** The servers that pull a stream and give it on, each with its distance from the publisher's where that is more than one. */
export function carriersText({ carriers }: ClusterStream): string {
  const name = ({ node, hops }: { node: string; hops: number }): string => (hops > 1 ? `${node} (${hops})` : node);
  return carriers.length === 0 ? "–" : [...carriers].sort((a, b) => a.hops - b.hops || byName.compare(a.node, b.node)).map(name).join(", ");
}

/** stage-2 stands before stage-10. */
export const byName = new Intl.Collator("en", { numeric: true });

/** The streams to show: live ones first, by name, those that hold `sought` in their name or that of their server. */
export function chosenStreams(streams: readonly ClusterStream[], sought: string): ClusterStream[] {
  const wanted = sought.trim().toLowerCase();
  const isChosen = ({ name, node }: ClusterStream): boolean => name.toLowerCase().includes(wanted) || node.toLowerCase().includes(wanted);
  return streams.filter(isChosen).sort((a, b) => Number(b.live) - Number(a.live) || byName.compare(a.name, b.name));
}

/** The line at the top of the page. */
export function summaryText(one: Cluster): string {
  if (!one.registry) return one.static.length === 0 ? "Not in a cluster" : "Streams are placed by a map";
  const alive = (one.nodes ?? []).filter((node) => node.alive).length;
  const live = (one.streams ?? []).filter((stream) => stream.live).length;
  const viewers = (one.nodes ?? []).reduce((sum, node) => sum + (node.alive ? node.viewers : 0), 0);
  return `${count(alive, "server")} alive · ${live} live · ${count(viewers, "viewer")}`;
}

function count(number: number, word: string, words = `${word}s`): string {
  return `${number} ${number === 1 ? word : words}`;
}

/** What has taken place between this server and the registry; what never has is left out, but for the first two. */
export function factsText({ claims, lost, conflicts, failed, dropped, sessions }: Registry): string {
  const facts: [number, string, string?][] = [
    [sessions, "connection to the registry", "connections to the registry"], [claims, "stream given to this server", "streams given to this server"],
    [lost, "of them gone to another one", "of them gone to another one"], [conflicts, "claim that came too late", "claims that came too late"],
    [failed, "request that failed", "requests that failed"], [dropped, "entry that had no room", "entries that had no room"],
  ];
  return facts.filter(([number], index) => number > 0 || index < 2).map(([number, word, words]) => count(number, word, words)).join(" · ");
}

/** How far the server that answers is emptied; null where it is not. */
function drainText(drain: Drain | undefined): Trouble | null {
  if (!drain?.draining) return null;
  const { viewers, publishers, players } = drain;
  const left = [count(viewers, "viewer"), count(publishers, "publisher"), count(players, "player")].join(", ");
  if (viewers + publishers + players === 0) return { what: "This server is emptied, and nothing is left.", todo: "It can be stopped. To take it back: glassline cluster drain --undo" };
  const alone = viewers + publishers === 0;
  return {
    what: `This server is being emptied: ${left} left.`,
    todo: alone
      ? "Players of LL-HLS and LL-DASH ask here first each time: lead them to another server by DNS or a load balancer."
      : "Clients that can follow are sent to another server. Lead publishers that cannot elsewhere; web pages, and what runs by other protocols, stay to their end.",
  };
}
