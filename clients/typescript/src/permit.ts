import type { Lockhouse } from "./client.js";
import { LockhouseError, UnavailableError } from "./errors.js";
import type { Hold } from "./hold.js";
import type { Release } from "./release.js";
import type { RequestStatus } from "./types.js";

/**
 * Permits that this program holds, on one or more semaphores. The client renews them in the background until they are
 * released.
 *
 * With `await using`, leaving the block releases, and throws `LostError` if the hold was lost meanwhile, unless
 * `throwIfLost` has thrown it. If the block has thrown another error, JavaScript makes a `SuppressedError` of both.
 */
export class Permit implements AsyncDisposable {
  #isOpen = true;

  /** @internal `acquire` makes it. */
  constructor(
    private readonly client: Lockhouse,
    /** The request as it was granted. */
    readonly request: RequestStatus,
    private readonly hold: Hold,
    private readonly back: Release,
  ) {}

  /** The id of the request: the caller's, or the one that was made for it. */
  get externalId(): string {
    return this.request.externalId;
  }

  /**
   * Aborts with a `LostError` when the hold is lost: when nine tenths of its time to live have passed since the last
   * successful renewal was sent. The server can grant the permits to another only after the whole time to live. A
   * released permit is never lost, so a release does not abort it.
   */
  get signal(): AbortSignal {
    return this.hold.signal;
  }

  /** Why the hold is lost, by the clock at this call; undefined while it is held. See `LostError.reason`. */
  get lost(): string | undefined {
    return this.hold.lost;
  }

  /** Throws `LostError` if the hold is lost: call it before each step that can't be undone. */
  throwIfLost(): void {
    if (this.lost !== undefined) throw this.hold.error(this.lost);
  }

  /** The fence on each semaphore, by its name. */
  get fences(): Record<string, number> {
    return Object.fromEntries(this.request.permits.map((it) => [it.semaphore, it.fence]));
  }

  /**
   * The fence on a semaphore: a number that rises with every grant on it. The name may be left out if the request
   * names only one.
   */
  fence(semaphore?: string): number {
    return this.#of(semaphore).fence;
  }

  /** The slots on a semaphore: indexes that no other live permit has. Empty if it is not slotted. */
  slots(semaphore?: string): number[] {
    return this.#of(semaphore).slots;
  }

  /**
   * Gives the permits back. It resolves with whether they were held until now: `false` if the hold had ended before.
   * A second release does nothing and resolves with `false`.
   *
   * It rejects with `UnavailableError` if the server does not answer. The release is then tried again in the background.
   */
  async release(): Promise<boolean> {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    this.client.drop(this);
    const until = this.hold.until;
    this.hold.stop();
    try {
      return await this.back.now();
    } catch (error) {
      if (error instanceof UnavailableError) this.back.inBackground(until);
      if (error instanceof LockhouseError && error.code === "unknown_request") return false;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const reason = await this.#leave();
    // The language would hide a first LostError, and the error of a session, in a SuppressedError.
    if (reason !== undefined && !this.hold.isTold) throw this.hold.error(reason);
  }

  /** @internal Releases after work that went well. */
  async leave(): Promise<void> {
    const reason = await this.#leave();
    if (reason !== undefined) throw this.hold.error(reason);
  }

  /** Releases, and says why the hold was lost before. */
  async #leave(): Promise<string | undefined> {
    if (!this.#isOpen) return undefined;
    const reason = this.lost;
    // The work is done: if the server does not answer, the release goes on in the background.
    const wasHeld = await this.release().catch((error: unknown) => {
      if (error instanceof UnavailableError) return true;
      if (reason !== undefined) return false;
      throw error;
    });
    return reason ?? (wasHeld ? undefined : "released");
  }

  /** @internal For the end of the client. */
  async close(): Promise<void> {
    await this.release();
  }

  #of(semaphore: string | undefined) {
    const { permits } = this.request;
    const found = semaphore === undefined && permits.length === 1 ? permits[0] : undefined;
    const permit = found ?? permits.find((it) => it.semaphore === semaphore);
    if (permit) return permit;
    throw new RangeError(`name one of the semaphores of this request: ${permits.map((it) => it.semaphore).join(", ")}`);
  }
}

/**
 * Runs `work` under the permit that `acquire` resolves with, then releases. An error of the work comes first: `await
 * using` would hide it in a `SuppressedError`.
 */
export async function under<T>(acquire: () => Promise<Permit>, work: (permit: Permit) => Promise<T> | T): Promise<T> {
  refuse("GeneratorFunction", work);
  const permit = await acquire();
  let done: T;
  try {
    done = await work(permit);
    refuse("Generator", done);
  } catch (error) {
    await permit.leave().catch(() => {});
    throw error;
  }
  await permit.leave();
  return done;
}

/** Throws for a generator, or the function of one, async or not: its body runs after the call, and so after the release. */
function refuse(kind: "Generator" | "GeneratorFunction", it: unknown): void {
  const tag = Object.prototype.toString.call(it);
  if (tag !== `[object ${kind}]` && tag !== `[object Async${kind}]`) return;
  throw new TypeError("the body of a generator runs after the release; hold the permit by `await using` in the body");
}
