import type { Caller } from "./ask.js";
import { after, now, type Timer } from "./clock.js";
import { LostError } from "./errors.js";
import { giveUpAt, Renewer } from "./renewer.js";
import { end, lostBy, newState, renewedIn, untilOf } from "./state.js";
import type { Call } from "./transport.js";
import type { Begin, Told } from "./worker.js";

/** Stops a renewal. */
type Stop = () => void;

/**
 * A hold, and whether it is lost: by the clock at each check, so that a process that was stopped finds it lost
 * at once. A lost hold stays lost, and a hold that is stopped is never lost after that.
 */
export class Hold {
  readonly #controller = new AbortController();
  readonly #state: BigInt64Array | undefined;
  #session: Hold | undefined;
  /** The holds that last as long as this one. */
  readonly #kept = new Set<Hold>();
  #reason: string | undefined;
  #isStopped = false;
  #isTold = false;
  #timer: Timer | undefined;
  #stop: Stop = () => {};

  /** Without a caller nothing is renewed: the hold never ends by itself. */
  constructor(
    readonly what: string,
    caller?: Caller,
    call?: Call,
    ttlMs = 0,
    sentAt = 0,
  ) {
    if (!caller || !call) return;
    this.#state = newState(giveUpAt(sentAt, ttlMs));
    this.#stop = renew(caller, call, ttlMs, sentAt, this.#state, (reason) => this.lose(reason));
    this.#watch();
  }

  /** A hold that lasts as long as its session; without one, nothing ends it. */
  static within(what: string, session: Hold | undefined): Hold {
    const hold = new Hold(what);
    if (!session) return hold;
    hold.#session = session;
    if (session.lost === undefined) session.#kept.add(hold);
    else hold.lose(session.lost);
    return hold;
  }

  /** Aborts when it is lost, with a `LostError`. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why it is lost, if it is. */
  get lost(): string | undefined {
    if (this.#reason !== undefined || this.#isStopped) return this.#reason;
    const why = this.#session?.lost ?? (this.#state && lostBy(this.#state));
    if (why !== undefined) this.lose(why);
    else if (this.until !== undefined && now() >= this.until) this.lose("not_renewed");
    return this.#reason;
  }

  /** Whether its loss, or that of its session, was thrown. */
  get isTold(): boolean {
    return this.#isTold || (this.#session?.isTold ?? false);
  }

  /** The error to throw. One loss of a session is that of all its permits. */
  error(reason: string): LostError {
    this.#isTold = true;
    if (this.#session?.lost !== undefined) this.#session.#isTold = true;
    return new LostError(this.what, reason);
  }

  /** Until when it is held, by `now`; undefined if nothing ends it. */
  get until(): number | undefined {
    return this.#state ? untilOf(this.#state) : this.#session?.until;
  }

  /** Renews it no more. It is not lost from now on, unless it was lost before. */
  stop(): void {
    void this.lost;
    this.#end();
  }

  #end(): void {
    this.#isStopped = true;
    if (this.#session) this.#session.#kept.delete(this);
    this.#timer?.cancel();
    if (this.#state) end(this.#state);
    this.#stop();
  }

  lose(reason: string): void {
    if (this.#reason !== undefined || this.#isStopped) return;
    this.#reason = reason;
    this.#end();
    this.#controller.abort(new LostError(this.what, reason));
    for (const it of this.#kept) it.lose(reason);
  }

  #watch(): void {
    const until = this.until;
    if (until === undefined || this.lost !== undefined) return;
    this.#timer = after(until - now(), () => this.#watch());
  }
}

function renew(
  caller: Caller,
  call: Call,
  ttlMs: number,
  sentAt: number,
  state: BigInt64Array,
  lost: (reason: string) => void,
): Stop {
  let here: Renewer | undefined;
  const renewHere = (from: number) => {
    here = new Renewer(caller, call, ttlMs, from, renewedIn(state, lost));
  };
  if (!caller.mayUseWorker || !worker) {
    renewHere(sentAt);
    return () => here?.stop();
  }
  const id = nextId++;
  const takeOver = () => renewHere(untilOf(state) - giveUpAt(0, ttlMs));
  renewedByWorker.set(id, { lost, takeOver });
  worker.postMessage({ id, settings: caller.settings, call, ttlMs, sentAt, state });
  return () => {
    // The worker sees in the state that it ended: it need not be woken for that.
    renewedByWorker.delete(id);
    here?.stop();
  };
}

// One worker renews all holds of this thread.
let nextId = 0;
const renewedByWorker = new Map<number, { lost: (reason: string) => void; takeOver: () => void }>();
let worker: { postMessage(begin: Begin): void } | undefined;
let starting: Promise<void> | undefined;

/** Starts the worker, unless it runs, and waits until it takes holds. Where there can be none, this thread renews. */
export function startWorker(): Promise<void> {
  starting ??= start().catch((error: unknown) => {
    process.emitWarning(`lockhouse: no worker thread, so a busy event loop delays renewals: ${error}`);
  });
  return starting;
}

async function start(): Promise<void> {
  const { Worker } = await import("node:worker_threads");
  // Without the program's flags: of some Node makes no worker, and with `--input-type` it would not read the worker's file.
  const started = new Worker(new URL("./worker.js", import.meta.url), { name: "lockhouse", execArgv: [] });
  await new Promise<void>((resolve) => {
    started.on("message", ({ id, lost }: Told) => {
      if (id === undefined || lost === undefined) {
        worker = started;
        return resolve();
      }
      renewedByWorker.get(id)?.lost(lost);
      renewedByWorker.delete(id);
    });
    // This thread goes on renewing what it renewed; the next hold starts another.
    const ended = () => {
      resolve();
      if (worker !== started) return;
      worker = undefined;
      starting = undefined;
      const left = [...renewedByWorker.values()];
      renewedByWorker.clear();
      for (const it of left) it.takeOver();
    };
    started.on("error", ended);
    started.on("exit", ended);
  });
  // A listener keeps the process alive, unless this comes after it.
  started.unref();
}
