/** The thread that renews, in Node: a busy event loop of the program does not delay it. */
import { parentPort } from "node:worker_threads";

import { Caller } from "./ask.js";
import { nodeTransport } from "./node.js";
import { Renewer } from "./renewer.js";
import type { Call, Settings } from "./transport.js";

export interface Begin {
  begin: number;
  settings: Settings;
  call: Call;
  ttlMs: number;
  sentAt: number;
  /** Until when it is held, in microseconds; shared with the program's thread. */
  until: BigInt64Array;
}

export type Command = Begin | { stop: number };
export interface Told {
  id: number;
  lost: string;
}

const callers = new Map<string, Caller>();
const renewers = new Map<number, Renewer>();

function callerOf(settings: Settings): Caller {
  const key = JSON.stringify(settings);
  const caller = callers.get(key) ?? new Caller(settings, nodeTransport(settings));
  callers.set(key, caller);
  return caller;
}

parentPort?.on("message", (command: Command) => {
  if ("stop" in command) {
    renewers.get(command.stop)?.stop();
    renewers.delete(command.stop);
    return;
  }
  const { begin: id, settings, call, ttlMs, sentAt, until } = command;
  const told = {
    until: (at: number) => void Atomics.store(until, 0, BigInt(Math.floor(at * 1000))),
    lost: (reason: string) => {
      renewers.delete(id);
      parentPort?.postMessage({ id, lost: reason } satisfies Told);
    },
  };
  renewers.set(id, new Renewer(callerOf(settings), call, ttlMs, sentAt, told));
});
