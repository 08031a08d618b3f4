import type { AskOptions, Lockhouse } from "./client.js";
import type { Hold } from "./hold.js";
import type { Permit } from "./permit.js";

/**
 * Keeps all that is acquired through it by one heartbeat, however much that is. The permits are lost when the session
 * is. A permit does not learn that its request alone was ended, by force.
 *
 * With `await using`, leaving the block says goodbye, which releases everything that the owner holds. It throws
 * `LostError` if the session was lost meanwhile, unless a permit of it has thrown that.
 */
export class Session implements AsyncDisposable {
  #isOpen = true;

  /** @internal `Lockhouse.session` makes it. */
  constructor(
    private readonly client: Lockhouse,
    readonly owner: string,
    private readonly hold: Hold,
  ) {}

  /** Aborts with a `LostError` when the session is lost, and at its goodbye. */
  get signal(): AbortSignal {
    return this.hold.signal;
  }

  /** Why the session is lost, by the clock at this call; undefined while it goes on. */
  get lost(): string | undefined {
    return this.hold.lost;
  }

  /** As `Lockhouse.acquire`, for this owner. The session keeps the permits, so they have no `ttlMs`. */
  acquire(permits: Record<string, number>, options: Omit<AskOptions, "owner" | "ttlMs"> = {}): Promise<Permit> {
    return this.client.acquireFor(permits, { ...options, owner: this.owner, ttlMs: null }, this.hold);
  }

  /** Releases all that the owner holds, and ends the session. It resolves with how many requests it released. */
  async goodbye(): Promise<number> {
    if (!this.#isOpen) return 0;
    this.#isOpen = false;
    this.client.drop(this);
    this.hold.lose("released");
    return this.client.goodbye(this.owner);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOpen) return;
    const reason = this.lost;
    if (reason === undefined) {
      await this.goodbye();
      return;
    }
    // Its silence has freed what it held, and the name may be another session's now.
    this.#isOpen = false;
    this.client.drop(this);
    if (!this.hold.isTold) throw this.hold.error(reason);
  }

  /** @internal For the end of the client. */
  async close(): Promise<void> {
    if (this.lost === undefined) await this.goodbye();
  }
}
