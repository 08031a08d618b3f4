import { Caller, type Asked } from "./ask.js";
import { IS_NODE, LONGEST_MS, now } from "./clock.js";
import { LockhouseError, RefusedError, EndedError } from "./errors.js";
import { fetchTransport } from "./fetch.js";
import { Hold, startWorker } from "./hold.js";
import { Permit, under } from "./permit.js";
import { Release } from "./release.js";
import { Semaphore, type SemaphoreOptions } from "./semaphore.js";
import { Session } from "./session.js";
import { ofWire, requestOf, semaphoreOf } from "./types.js";
import type { CapacityChange, RequestStatus, SemaphoreStatus, Template, Waiter } from "./types.js";
import type { Call } from "./transport.js";
import { wait } from "./wait.js";

const DEFAULT_URL = "http://127.0.0.1:7117";
const DEFAULT_TTL_MS = 30_000;

export interface Options {
  /** Where the server is; in Node the environment's `LOCKHOUSE_URL` unless given, or `http://127.0.0.1:7117`. */
  url?: string;
  /** Sent with every call; in Node the environment's `LOCKHOUSE_TOKEN` unless given. */
  token?: string;
  /** A PEM file of the authority that signed the server's certificate; `LOCKHOUSE_CA_FILE` unless given. Node only. */
  caFile?: string;
  /**
   * Bounds each call with all its retries, beyond the wait that it asks for; 10,000 unless given, and more than 0. Then
   * the call rejects with `UnavailableError`.
   */
  timeoutMs?: number;
  /** Makes the calls instead of Node's own HTTP. Renewal is then on this thread: see the README. */
  fetch?: typeof globalThis.fetch;
}

export interface AskOptions {
  /**
   * Identifies the request, so that it can be repeated: every repeat gets the one grant. Callers that use one id hold
   * it together, and the first release ends it for all. An id that has ended is refused with `EndedError`. Without it,
   * each call has a fresh id.
   */
  externalId?: string;
  /** Free text that listings show. */
  owner?: string;
  /**
   * How long the hold outlives its last renewal; 30,000 unless given. A fraction is rounded up to a whole number. With
   * null it is not renewed: it lasts until it is released, even if this process dies, or until the server ends it as
   * stale, by default after 24 hours. A number that is not finite is refused with `invalid_request`.
   */
  ttlMs?: number | null;
  /**
   * Bounds the wait, which then rejects with `ExhaustedError`; 0 or less does not wait. A fraction is rounded up to a
   * whole number. Without it, and with `Infinity`, there is no bound.
   */
  waitMs?: number;
  /** From -100 to 100. A higher one is served first; each step is worth ten seconds of waiting. */
  priority?: number;
  /** Ends the wait: it leaves the line and rejects with the signal's reason. It does not end the hold. */
  signal?: AbortSignal;
}

export interface DefineOptions {
  /** Gives each permit an index that no other live permit has: see `Permit.slots`. */
  slots?: boolean;
  /** The reason, for the history. */
  note?: string;
  /** The author of the change, for the history. */
  changedBy?: string;
  /** The capacity that it must have now; otherwise the call is refused with `capacity_changed`. */
  expectedCapacity?: number;
}

/** A permit or a session. */
interface Closeable {
  close(): Promise<void>;
}

/** The client of one Lockhouse server. Nothing is sent before the first call. */
export class Lockhouse implements AsyncDisposable {
  readonly #opened = new Set<Closeable>();
  /** @internal Releases under way, which `close` waits for. */
  readonly background = new Set<Promise<void>>();
  readonly #caller: Promise<Caller>;
  readonly #timeoutMs: number;

  constructor(options: Options = {}) {
    const url = options.url ?? environment("LOCKHOUSE_URL") ?? DEFAULT_URL;
    const token = options.token ?? environment("LOCKHOUSE_TOKEN");
    if (token !== undefined && !/^[!-~]*$/.test(token)) {
      throw new TypeError("token has characters that no token has, such as a space or a line's end");
    }
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    if (!(this.#timeoutMs > 0)) throw new TypeError("timeoutMs must be more than 0");
    this.#caller = connect(checked(url), token, options);
    // Each call tells what went wrong.
    this.#caller.catch(() => {});
    releaseAtExit();
  }

  /** A handle on the semaphore of this name, which must exist, match a template, or be given a capacity. */
  semaphore(name: string, options: SemaphoreOptions = {}): Semaphore {
    return new Semaphore(this, name, options);
  }

  /**
   * Waits for `{semaphore: count}` and takes it, all or nothing.
   *
   * It rejects with `ExhaustedError` when `waitMs` is over, with the reason of `signal` when that aborts, and with
   * `UnavailableError` if no server answers.
   */
  acquire(permits: Record<string, number>, options: AskOptions = {}): Promise<Permit> {
    return this.acquireFor(permits, options);
  }

  /**
   * Runs `work` under permits, then releases. It rejects with the error of `work`, or else with `LostError` if the hold
   * was lost meanwhile. It rejects with `TypeError` if `work` is a generator function, or returns a generator.
   */
  async run<T>(
    permits: Record<string, number>,
    work: (permit: Permit) => Promise<T> | T,
    options: AskOptions = {},
  ): Promise<T> {
    return under(() => this.acquire(permits, options), work);
  }

  /**
   * Begins an owner's session: one heartbeat keeps all that is acquired through it.
   *
   * Two processes must not have sessions of the same owner at the same time: a goodbye releases all that the owner
   * holds. Without a heartbeat for `ttlMs`, which is as `AskOptions.ttlMs`, the server ends the session.
   */
  async session(owner: string, ttlMs: number = DEFAULT_TTL_MS): Promise<Session> {
    const path = pathOf("owners", owner);
    const sentAt = now();
    await this.#call({ method: "PUT", path, body: { ttl_ms: ttlMs } });
    const caller = await this.#caller;
    if (caller.mayUseWorker) await startWorker();
    const beat: Call = { method: "PUT", path, body: { ttl_ms: ttlMs, must_exist: true } };
    const hold = new Hold(`the session of ${owner}`, caller, beat, ttlMs, sentAt);
    const session = new Session(this, owner, hold);
    this.keep(session);
    return session;
  }

  /** Creates a semaphore, or sets its capacity; 0 closes it. A smaller capacity revokes no permit. */
  async define(name: string, capacity: number, options: DefineOptions = {}): Promise<SemaphoreStatus> {
    const { slots, note, changedBy, expectedCapacity } = options;
    const more = { slots: slots || undefined, note, changed_by: changedBy, expected_capacity: expectedCapacity };
    return this.#define(name, { capacity, ...more });
  }

  /** Creates a semaphore unless there is one, which keeps its capacity. */
  async defineIfMissing(name: string, capacity: number): Promise<SemaphoreStatus> {
    try {
      return await this.#define(name, { capacity }, { "if-none-match": "*" });
    } catch (error) {
      if (!hasCode(error, "capacity_changed")) throw error;
    }
    return this.status(name);
  }

  /** Sets the capacity of a semaphore that must exist. */
  resize(name: string, capacity: number): Promise<SemaphoreStatus> {
    return this.#define(name, { capacity }, { "if-match": "*" });
  }

  /** The capacity, the use and the waiters of a semaphore now. */
  async status(name: string): Promise<SemaphoreStatus> {
    return semaphoreOf(await this.#get(pathOf("semaphores", name)));
  }

  /** Deletes a semaphore of which nothing is held. */
  async delete(name: string): Promise<void> {
    try {
      await this.#call({ method: "DELETE", path: pathOf("semaphores", name) });
    } catch (error) {
      // An earlier try, whose answer was lost, may have deleted it.
      if (!hasCode(error, "unknown_semaphore") || !error.maybeApplied) throw error;
    }
  }

  /** All semaphores, or those whose names begin with `prefix`, by name. */
  semaphores(prefix?: string): AsyncIterable<SemaphoreStatus> {
    return this.#pages("/v1/semaphores", "semaphores", semaphoreOf, { prefix });
  }

  /** The requests that hold permits of a semaphore. */
  holders(name: string): AsyncIterable<RequestStatus> {
    return this.#pages(pathOf("semaphores", name, "holders"), "holders", requestOf, {});
  }

  /** Live requests, of an owner and on a semaphore if they are given. */
  requests(filters: { owner?: string; semaphore?: string } = {}): AsyncIterable<RequestStatus> {
    return this.#pages("/v1/requests", "requests", requestOf, filters);
  }

  /** Changes of the capacity, newest first. */
  async history(name: string): Promise<CapacityChange[]> {
    return ofWire((await this.#get(pathOf("semaphores", name, "history")))["changes"]);
  }

  /** The calls that wait for a semaphore, in the order in which they are served. */
  async waiting(name: string): Promise<Waiter[]> {
    return ofWire((await this.#get(pathOf("semaphores", name, "waiting")))["waiting"]);
  }

  /** Finds a request by its id, held or ended. Refused with `unknown_request` if there is none. */
  async find(externalId: string): Promise<RequestStatus> {
    return requestOf(await this.#get(pathOf("requests", externalId)));
  }

  /** Extends a hold to `ttlMs` from now, or to its own TTL. A `Permit` renews itself. */
  async renew(externalId: string, ttlMs?: number): Promise<RequestStatus> {
    const path = pathOf("requests", externalId, "renew");
    return requestOf((await this.#call({ method: "POST", path, body: { ttl_ms: ttlMs } })).value);
  }

  /** Releases a request by its id, also one of another process. It resolves with whether this call ended it. */
  release(externalId: string, options: { by?: string } = {}): Promise<boolean> {
    return this.#end(externalId, "released", { by: options.by });
  }

  /** Ends anybody's request; whether this call did. Its holder learns it at the next renewal. */
  force(externalId: string, options: { by?: string } = {}): Promise<boolean> {
    return this.#end(externalId, "forced", { force: "true", by: options.by });
  }

  /** Releases all that an owner holds, and ends its session. It resolves with how many requests it released. */
  async goodbye(owner: string): Promise<number> {
    const asked = await this.#call({ method: "DELETE", path: pathOf("owners", owner) });
    return (asked.value as { released: number }).released;
  }

  /**
   * Has semaphores whose names match the pattern, such as `customer/*`, created on first use. One that nobody has used
   * for `idleMs` is deleted.
   */
  async setTemplate(pattern: string, capacity: number, options: { idleMs?: number } = {}): Promise<Template> {
    const body = { capacity, idle_ms: options.idleMs };
    return ofWire((await this.#call({ method: "PUT", path: pathOf("templates", pattern), body })).value);
  }

  /** All templates. */
  templates(): AsyncIterable<Template> {
    return this.#pages("/v1/templates", "templates", ofWire<Template>, {});
  }

  /** Deletes a template; semaphores that it created stay. */
  async deleteTemplate(pattern: string): Promise<void> {
    await this.#call({ method: "DELETE", path: pathOf("templates", pattern) });
  }

  /** Whether the server answers, and its store does. */
  async ready(): Promise<boolean> {
    const { settings, transport } = await this.#caller;
    const [method, url, headers] = ["GET", `${settings.url}/readyz`, {}];
    const timeoutMs = Math.min(this.#timeoutMs, LONGEST_MS);
    const sent = { method, url, headers, body: undefined, timeoutMs, signal: undefined };
    return transport.send(sent).then(
      (answer) => answer.status === 200,
      () => false,
    );
  }

  /** Releases all that is held, says goodbye for all sessions, and waits for releases that are under way. */
  async close(): Promise<void> {
    const ended = await Promise.allSettled([...this.#opened].map((it) => it.close()));
    await Promise.all(this.background);
    await this.#caller.then((caller) => caller.transport.close()).catch(() => {});
    for (const it of ended) if (it.status === "rejected") throw it.reason;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal Has `close`, and the end of the process, end a permit or a session. */
  keep(it: Closeable): void {
    this.#opened.add(it);
    clients.add(this);
  }

  /** @internal */
  drop(it: Closeable): void {
    this.#opened.delete(it);
    if (this.#opened.size === 0) clients.delete(this);
  }

  /** @internal `acquire`, for a session if one is given. */
  async acquireFor(permits: Record<string, number>, options: AskOptions, session?: Hold): Promise<Permit> {
    const externalId = options.externalId ?? crypto.randomUUID();
    const isOurs = options.externalId === undefined;
    const release = new Release(this, externalId, options.owner ?? (await thisProcess()), isOurs);
    const ended = () =>
      new EndedError("session_ended", `the session of "${options.owner}" has ended; begin another`);
    const given = new AbortController();
    const onAbort = () => given.abort(options.signal?.reason);
    const onLost = () => given.abort(ended());
    options.signal?.throwIfAborted();
    if (session?.lost !== undefined) throw ended();
    options.signal?.addEventListener("abort", onAbort);
    session?.signal.addEventListener("abort", onLost);
    try {
      return await this.#grant(permits, options, externalId, release, given.signal, session);
    } catch (error) {
      const isClean = error instanceof RefusedError && !error.maybeApplied && !given.signal.aborted;
      // The request may have been granted. Only this caller knows its id, so nobody else could release it.
      const ttlMs = options.ttlMs === undefined ? DEFAULT_TTL_MS : options.ttlMs;
      if (isOurs && !isClean) release.inBackground(ttlMs === null ? undefined : now() + ttlMs, true);
      throw error;
    } finally {
      options.signal?.removeEventListener("abort", onAbort);
      session?.signal.removeEventListener("abort", onLost);
    }
  }

  async #grant(
    permits: Record<string, number>,
    options: AskOptions,
    externalId: string,
    release: Release,
    signal: AbortSignal,
    session?: Hold,
  ): Promise<Permit> {
    const asked = options.ttlMs === undefined ? DEFAULT_TTL_MS : options.ttlMs;
    const body = {
      permits: Object.entries(permits).map(([semaphore, count]) => ({ semaphore, count })),
      owner: options.owner,
      ttl_ms: asked ?? undefined,
      priority: options.priority,
    };
    const path = pathOf("requests", externalId);
    const askedAt = now();
    const until = askedAt + (options.waitMs ?? Infinity);
    const caller = await this.#caller;
    // It is there before the permit is, so that a program that is busy from then on loses no hold.
    const worker = caller.mayUseWorker && asked !== null ? startWorker() : undefined;
    const answer = await wait(caller, path, body, until, this.#timeoutMs, signal);
    await worker;
    let request = requestOf(answer.value);
    let hold = Hold.within(`request ${externalId}`, session);
    if (request.ttlMs !== null) {
      // From when the time to live surely runs: a grant of another moment is renewed first.
      let sentAt = askedAt;
      const ttlMs = Math.max(request.ttlMs, answer.status === 201 ? 0 : (asked ?? 0));
      if (answer.status !== 201 || now() - askedAt > ttlMs / 6) {
        sentAt = now();
        request = await this.renew(externalId, ttlMs).catch((error: unknown) => {
          if (error instanceof LockhouseError) error.maybeApplied = true; // The ask was granted.
          throw error;
        });
      }
      const call: Call = { method: "POST", path: `${path}/renew`, body: { ttl_ms: ttlMs } };
      hold = new Hold(`request ${externalId}`, caller, call, ttlMs, sentAt);
    }
    const permit = new Permit(this, request, hold, release);
    this.keep(permit);
    return permit;
  }

  async #end(externalId: string, reason: string, query: Record<string, string | undefined>): Promise<boolean> {
    const began = now();
    const path = withQuery(pathOf("requests", externalId), query);
    const asked = await this.#call({ method: "DELETE", path });
    const ended = ofWire<RequestStatus & { released: boolean; decidedAt: Date; finishedAt?: Date }>(asked.value);
    if (ended.released || !asked.before || ended.endReason !== reason || !ended.releasedAt) return ended.released;
    if (ended.finishedAt) return false; // The holder's own transaction released it.
    // A request that ended before this call began was not ended by an earlier try of the call.
    return ended.decidedAt.getTime() - ended.releasedAt.getTime() <= now() - began;
  }

  async #define(name: string, body: object, headers: Record<string, string> = {}): Promise<SemaphoreStatus> {
    const asked = await this.#call({ method: "PUT", path: pathOf("semaphores", name), body, headers });
    return semaphoreOf(asked.value);
  }

  /** A listing, read from its first page by each loop. */
  #pages<T>(
    path: string,
    member: string,
    of: (wire: unknown) => T,
    filters: Record<string, string | undefined>,
  ): AsyncIterable<T> {
    return { [Symbol.asyncIterator]: () => this.#read(path, member, of, filters) };
  }

  async *#read<T>(
    path: string,
    member: string,
    of: (wire: unknown) => T,
    filters: Record<string, string | undefined>,
  ): AsyncGenerator<T, void, void> {
    let cursor: string | null | undefined;
    do {
      const page = await this.#get(withQuery(path, { ...filters, cursor }));
      for (const it of page[member] as unknown[]) yield of(it);
      cursor = page["next"] as string | null | undefined;
    } while (typeof cursor === "string");
  }

  async #get(path: string): Promise<Record<string, unknown>> {
    return (await this.#call({ method: "GET", path })).value as Record<string, unknown>;
  }

  async #call(call: Call): Promise<Asked> {
    return (await this.#caller).ask(call, now() + this.#timeoutMs);
  }
}

/** In the environment, empty is unset. Browsers have none. */
function environment(name: string): string | undefined {
  return (IS_NODE && process.env[name]?.trim()) || undefined;
}

function checked(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol) || !parsed.hostname) {
    throw new TypeError("the URL of a server is http://HOST:PORT or https://HOST:PORT");
  }
  if (parsed.username || parsed.password) throw new TypeError("url must not hold a user or a password; pass token");
  if (parsed.search || parsed.hash) throw new TypeError("url must not have a query or a fragment");
  return parsed.href.replace(/\/+$/, "");
}

async function connect(url: string, token: string | undefined, options: Options): Promise<Caller> {
  if (!IS_NODE || options.fetch) {
    if (options.caFile) throw new TypeError("caFile is for Node's own HTTP; browsers have their own authorities");
    const fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    return new Caller({ url, token, ca: undefined }, fetchTransport(fetch));
  }
  const { nodeTransport } = await import("./node.js");
  const { readFile } = await import("node:fs/promises");
  const caFile = options.caFile ?? environment("LOCKHOUSE_CA_FILE");
  const ca = caFile === undefined ? undefined : await readFile(caFile, "utf8");
  const settings = { url, token, ca };
  return new Caller(settings, nodeTransport(settings), true);
}

/** `/v1`, what it is of, and the name as one segment. */
function pathOf(of: string, name: string, ...below: string[]): string {
  if (name === "" || name === "." || name === "..") {
    throw new RefusedError("invalid_request", `a URL can't hold the name "${name}"; pick another`);
  }
  return ["/v1", of, encodeURIComponent(name), ...below].join("/");
}

function withQuery(path: string, query: Record<string, string | null | undefined>): string {
  const given = Object.entries(query).filter((it): it is [string, string] => typeof it[1] === "string");
  return given.length > 0 ? `${path}?${new URLSearchParams(given)}` : path;
}

function hasCode(error: unknown, code: string): error is LockhouseError {
  return error instanceof LockhouseError && error.code === code;
}

/** Its host and its pid, as the other clients say it. */
let nameOfProcess: string | undefined;
async function thisProcess(): Promise<string> {
  if (!IS_NODE) return "browser";
  nameOfProcess ??= `${(await import("node:os")).hostname()}:${process.pid}`;
  return nameOfProcess;
}

const clients = new Set<Lockhouse>();
let isListening = false;

/** When nothing is left to do, what is still held is released before the process ends. */
function releaseAtExit(): void {
  if (isListening || !IS_NODE) return;
  isListening = true;
  process.on("beforeExit", () => {
    for (const client of clients) client.close().catch(() => {});
  });
}
