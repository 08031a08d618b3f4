import { IS_NODE } from "./clock.js";
import type { Renewed } from "./renewer.js";

/**
 * The state that the thread that renews a hold shares with the thread that uses it: until when it is held, in microseconds, and
 * whether it was released, or lost and why. In Node it is shared memory, so that neither has to wait for the other's messages.
 */
export function newState(until: number): BigInt64Array {
  const isShared = IS_NODE && typeof SharedArrayBuffer === "function";
  const state = new BigInt64Array(isShared ? new SharedArrayBuffer(16) : new ArrayBuffer(16));
  setUntil(state, until);
  return state;
}

export function untilOf(state: BigInt64Array): number {
  return Number(Atomics.load(state, 0)) / 1000;
}

function setUntil(state: BigInt64Array, until: number): void {
  Atomics.store(state, 0, BigInt(Math.floor(until * 1000)));
}

/** The place of a reason tells the other thread which it is. The first is none: the hold was stopped, or a message has why. */
const REASONS = ["", "not_renewed", "released", "expired", "forced", "owner_dead", "stale", "unknown"];

export function end(state: BigInt64Array, reason = ""): void {
  Atomics.store(state, 1, BigInt(Math.max(REASONS.indexOf(reason), 0) + 1));
}

/** Why a renewer found it lost, if it did. */
export function lostBy(state: BigInt64Array): string | undefined {
  return REASONS[Number(Atomics.load(state, 1)) - 1] || undefined;
}

/** Writes what a renewer finds out. */
export function renewedIn(state: BigInt64Array, lost: (reason: string) => void): Renewed {
  return {
    until: (until) => setUntil(state, until),
    isStopped: () => Atomics.load(state, 1) !== 0n,
    lost: (reason) => {
      end(state, reason);
      lost(reason);
    },
  };
}
