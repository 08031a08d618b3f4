import type { AskOptions, Lockhouse } from "./client.js";
import { ExhaustedError, LockhouseError } from "./errors.js";
import { under, type Permit } from "./permit.js";

export interface SemaphoreOptions {
  /** The capacity with which it is created on first use, if there is none. One that exists keeps its capacity. */
  capacity?: number;
}

/** A handle on a named semaphore, made by `Lockhouse.semaphore`. It holds nothing itself. */
export class Semaphore {
  /** @internal */
  constructor(
    private readonly client: Lockhouse,
    readonly name: string,
    private readonly options: SemaphoreOptions,
  ) {}

  /**
   * Waits for permits, one unless `count` says more, and takes them.
   *
   * It rejects with `ExhaustedError` when `waitMs` is over, with the reason of `signal` when that aborts, and with
   * `UnavailableError` if no server answers.
   */
  async acquire(options: AskOptions & { count?: number } = {}): Promise<Permit> {
    const { count = 1, ...ask } = options;
    const acquire = () => this.client.acquire({ [this.name]: count }, ask);
    try {
      return await acquire();
    } catch (error) {
      const isMissing = error instanceof LockhouseError && error.code === "unknown_semaphore";
      if (!isMissing || this.options.capacity === undefined) throw error;
    }
    await this.client.defineIfMissing(this.name, this.options.capacity);
    return acquire();
  }

  /** Takes permits if there is room now and nobody waits for it; otherwise resolves with undefined. */
  async tryAcquire(options: Omit<AskOptions, "waitMs"> & { count?: number } = {}): Promise<Permit | undefined> {
    try {
      return await this.acquire({ ...options, waitMs: 0 });
    } catch (error) {
      if (error instanceof ExhaustedError) return undefined;
      throw error;
    }
  }

  /**
   * Runs `work` under a permit, then releases. It rejects with the error of `work`, or else with `LostError` if the hold
   * was lost meanwhile. It rejects with `TypeError` if `work` is a generator function, or returns a generator.
   */
  async run<T>(work: (permit: Permit) => Promise<T> | T, options: AskOptions & { count?: number } = {}): Promise<T> {
    return under(() => this.acquire(options), work);
  }
}
