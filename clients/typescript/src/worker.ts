/** The thread that renews, in Node: a busy event loop of the program does not delay it. */
import { parentPort } from "node:worker_threads";

import { Caller } from "./ask.js";
import { nodeTransport } from "./node.js";
import { renewedIn } from "./state.js";
import { Renewer } from "./renewer.js";
import type { Call, Settings } from "./transport.js";

export interface Begin {
  id: number;
  settings: Settings;
  call: Call;
  ttlMs: number;
  sentAt: number;
  /** Shared with the program's thread: see `Hold`. */
  state: BigInt64Array;
}

/** Without members, that it takes messages. */
export interface Told {
  id?: number;
  lost?: string;
}

const callers = new Map<string, Caller>();

function callerOf(settings: Settings): Caller {
  const key = JSON.stringify(settings);
  const caller = callers.get(key) ?? new Caller(settings, nodeTransport(settings));
  callers.set(key, caller);
  return caller;
}

parentPort?.on("message", ({ id, settings, call, ttlMs, sentAt, state }: Begin) => {
  const tell = (lost: string) => parentPort?.postMessage({ id, lost } satisfies Told);
  new Renewer(callerOf(settings), call, ttlMs, sentAt, renewedIn(state, tell));
});
parentPort?.postMessage({} satisfies Told);
