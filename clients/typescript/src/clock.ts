/** Whether this is Node, whose threads share one monotonic clock and can share memory. */
export const IS_NODE = typeof process === "object" && typeof process.versions?.node === "string";

/** Milliseconds of a monotonic clock; in Node the same on all threads. */
export const now: () => number = IS_NODE
  ? () => Number(process.hrtime.bigint() / 1000n) / 1000
  : () => performance.now();

/** The longest delay of a timer; a longer one would fire at once. */
export const LONGEST_MS = 2 ** 31 - 1;

export interface Timer {
  cancel(): void;
}

/** Calls `what` after `ms`. It does not keep the process from ending. */
export function after(ms: number, what: () => void): Timer {
  const timer = setTimeout(what, Math.min(Math.max(ms, 0), LONGEST_MS));
  // Browsers' timers are numbers.
  if (typeof timer === "object") timer.unref();
  return { cancel: () => clearTimeout(timer) };
}
