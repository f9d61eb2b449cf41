/** What a server tells of the others that it has streams in common with: `GET /api/cluster`, for operators. */
import { type Told, told } from "./event_api";
import { ROOT } from "./root";

export interface Registry {
  heard: boolean;
  server: string | null;
  bucket: string;
  error: string | null;
  claims: number;
  lost: number;
  conflicts: number;
  failed: number;
  dropped: number;
  sessions: number;
  twin: boolean;
}

export interface ClusterNode {
  name: string;
  address: string;
  zone: string;
  version: string;
  viewers: number;
  alive: boolean;
  leaving: boolean;
  /** It is emptied: its viewers are sent elsewhere. */
  draining: boolean;
  own: boolean;
}

export interface ClusterStream {
  name: string;
  node: string;
  epoch: number;
  live: boolean;
  /** The servers that say they pull it and give it on. */
  carriers: { node: string; hops: number }[];
}

/** A stream that the server which answers pulls from another one. */
export interface Pull {
  stream: string;
  /** The server that sends it; null where none does at the moment. */
  node: string | null;
  /** Connections between servers from the publisher's one to here, from 1 on. */
  hops: number | null;
}

/** What is left of a server that is emptied. */
export interface Drain {
  draining: boolean;
  viewers: number;
  publishers: number;
  /** Addresses that have read a playlist in the last 30 seconds. */
  players: number;
  pulls: number;
}

/** Without a registry, all but the map is missing. */
export interface Cluster {
  node?: string;
  registry?: Registry;
  nodes?: ClusterNode[];
  streams?: ClusterStream[];
  unread?: { name: string; error: string }[];
  pulled?: Pull[];
  drain?: Drain;
  static: { pattern: string; server: string }[];
}

/** Asks the server, which tells operators by their address. */
export function cluster(): Promise<Told<Cluster>> {
  return told<Cluster>(`${ROOT}api/cluster`, (answer) => Array.isArray(answer?.static));
}

/** Whether the server has others at all. */
export function isConfigured(one: Cluster): boolean {
  return one.registry !== undefined || one.static.length > 0;
}

export const clusterPath = (): string => `${ROOT}cluster`;
