import { sleep } from "./ask.js";
import type { Lockhouse } from "./client.js";
import { now } from "./clock.js";
import { RefusedError } from "./errors.js";

const AGAIN_AFTER_MS = 2_000;
const COMES_WITHIN_MS = 1_000;

/** How to release one request. `isOurs`: this package made its id, so nobody else can release it. */
export class Release {
  constructor(
    private readonly client: Lockhouse,
    private readonly externalId: string,
    private readonly by: string,
    readonly isOurs: boolean,
  ) {}

  now(): Promise<boolean> {
    return this.client.release(this.externalId, { by: this.by });
  }

  /** Tries until it is released or has ended. `mayComeYet`: the ask may reach the server only after this. */
  inBackground(endsAt: number | undefined, mayComeYet = false): void {
    const work = this.#untilReleased(endsAt, mayComeYet).finally(() => this.client.background.delete(work));
    this.client.background.add(work);
  }

  async #untilReleased(endsAt: number | undefined, mayComeYet: boolean): Promise<void> {
    for (;;) {
      try {
        await this.now();
        return;
      } catch (error) {
        if (error instanceof RefusedError) {
          if (!mayComeYet) return;
          mayComeYet = false;
          await sleep(COMES_WITHIN_MS);
          continue;
        }
      }
      if (!this.isOurs) return;
      await sleep(AGAIN_AFTER_MS);
      if (endsAt !== undefined && now() >= endsAt) return;
    }
  }
}
