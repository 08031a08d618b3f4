import type { Asked, Caller } from "./ask.js";
import { now } from "./clock.js";
import { ExhaustedError } from "./errors.js";

/** The longest wait of one call: proxies end calls on which nothing moves. */
const LONGEST_MS = 20_000;
/** How long before a call ends the next one begins. */
const OVERLAP_MS = 1_000;

/**
 * Waits for room until then, in calls of at most 20 s under one id, each of which begins a second before the
 * last one ends. So the server has one of them in its line all the time, and nobody behind gets by in between.
 * The first answer other than "no room" counts. The other calls are then cancelled.
 */
export function wait(
  caller: Caller,
  path: string,
  body: object,
  until: number,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Asked> {
  const others = new AbortController();
  return new Promise<Asked>((resolve, reject) => {
    let open = 0;
    let next: ReturnType<typeof setTimeout> | undefined;
    const settle = () => {
      clearTimeout(next);
      signal.removeEventListener("abort", onAbort);
      // An abort makes an error with a stack, so only if there is a call to end.
      if (open > 0) others.abort();
    };
    const onAbort = () => {
      settle();
      reject(signal.reason);
    };
    const begin = () => {
      clearTimeout(next);
      const end = Math.min(until, now() + LONGEST_MS);
      if (end < until) next = setTimeout(begin, LONGEST_MS - OVERLAP_MS);
      open++;
      const currentBody = () => ({ ...body, wait_ms: Math.max(end - now(), 0) });
      const deadline = Math.max(end, now()) + timeoutMs;
      caller.ask({ method: "PUT", path, body: currentBody }, deadline, others.signal).then(
        (asked) => {
          open--;
          settle();
          resolve(asked);
        },
        (error: unknown) => {
          open--;
          if (others.signal.aborted) return;
          if (error instanceof ExhaustedError && (open > 0 || now() < until)) {
            if (open === 0) begin();
            return;
          }
          settle();
          reject(error);
        },
      );
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort);
    begin();
  });
}
