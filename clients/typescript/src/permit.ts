import type { Lockhouse } from "./client.js";
import { LockhouseError, LostError, UnavailableError } from "./errors.js";
import type { Hold } from "./hold.js";
import type { Release } from "./release.js";
import type { RequestStatus } from "./types.js";

/**
 * What is held: renewed in the background until it is released.
 *
 * With `await using`, leaving the block releases, and throws `LostError` if the hold was lost meanwhile.
 */
export class Permit implements AsyncDisposable {
  #isOpen = true;

  /** Made by `acquire`. */
  constructor(
    private readonly client: Lockhouse,
    /** The request as it was granted. */
    readonly request: RequestStatus,
    private readonly hold: Hold,
    private readonly isOwn: boolean,
    private readonly back: Release,
  ) {}

  get externalId(): string {
    return this.request.externalId;
  }

  /** Aborts when the hold is lost, a tenth of its time to live before the server could grant it to another. */
  get signal(): AbortSignal {
    return this.hold.signal;
  }

  /** Why the hold is lost, by the clock as it is now; undefined while it is held. */
  get lost(): string | undefined {
    return this.hold.lost;
  }

  /** Throws `LostError` if the hold is lost: call it before each step that can't be undone. */
  throwIfLost(): void {
    if (this.lost !== undefined) throw this.#lostError(this.lost);
  }

  get fences(): Record<string, number> {
    return Object.fromEntries(this.request.permits.map((it) => [it.semaphore, it.fence]));
  }

  /** The fence on a semaphore, which may be left out if there is but one. */
  fence(semaphore?: string): number {
    return this.#of(semaphore).fence;
  }

  /** The slots on a semaphore; none if it is not slotted. */
  slots(semaphore?: string): number[] {
    return this.#of(semaphore).slots;
  }

  /**
   * Gives the permits back; whether they were held until now. A second release does nothing.
   *
   * It throws `UnavailableError` if the server does not answer; it is then tried again in the background.
   */
  async release(): Promise<boolean> {
    if (!this.#isOpen) return false;
    this.#isOpen = false;
    this.client.drop(this);
    const until = this.hold.until;
    if (this.isOwn) this.hold.stop();
    try {
      return await this.back.now();
    } catch (error) {
      if (error instanceof UnavailableError) this.back.inBackground(until);
      if (error instanceof LockhouseError && error.code === "unknown_request") return false;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOpen) return;
    const reason = this.lost;
    // The work is done: if the server does not answer, the release goes on in the background.
    const wasHeld = await this.release().catch((error: unknown) => {
      if (error instanceof UnavailableError) return true;
      throw error;
    });
    if (reason !== undefined || !wasHeld) throw this.#lostError(reason ?? "released");
  }

  /** For the end of the client. */
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

  #lostError(reason: string): LostError {
    return new LostError(`request ${this.externalId}`, reason);
  }
}
