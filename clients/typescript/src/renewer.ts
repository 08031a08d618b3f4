import type { Caller } from "./ask.js";
import { after, now, type Timer } from "./clock.js";
import { EndedError } from "./errors.js";
import type { Call } from "./transport.js";

const RENEWAL_MS = 10_000;

/** When a hold that was asked for at `sentAt` counts as lost: a tenth of its time to live before the end. */
export function giveUpAt(sentAt: number, ttlMs: number): number {
  return sentAt + ttlMs - ttlMs / 10;
}

export interface Renewed {
  until(until: number): void;
  lost(reason: string): void;
  /** Whether the hold needs no more renewal. */
  isStopped(): boolean;
}

/**
 * Renews one hold about every third of its time to live. A renewal that is not answered soon gets another beside
 * it, as a dead connection may hang.
 */
export class Renewer {
  #next: number;
  #until: number;
  #timer: Timer | undefined;

  constructor(
    readonly caller: Caller,
    readonly call: Call,
    readonly ttlMs: number,
    sentAt: number,
    readonly told: Renewed,
  ) {
    this.#next = sentAt + this.#soon();
    this.#until = giveUpAt(sentAt, ttlMs);
    this.#plan();
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** Up to a fifth sooner, so that holds that began together do not go on in step. */
  #soon(): number {
    return (this.ttlMs / 3) * (1 - Math.random() / 5);
  }

  #plan(): void {
    this.#timer?.cancel();
    if (!this.told.isStopped()) this.#timer = after(Math.min(this.#next, this.#until) - now(), () => this.#tick());
  }

  #tick(): void {
    if (this.told.isStopped()) return;
    if (now() >= this.#until) return this.told.lost("not_renewed");
    if (now() >= this.#next) {
      this.#next = now() + this.ttlMs / 4;
      void this.#renew();
    }
    this.#plan();
  }

  async #renew(): Promise<void> {
    const sentAt = now();
    const result = await this.caller.once(this.call, sentAt + RENEWAL_MS);
    if (this.told.isStopped()) return;
    if (!("error" in result)) {
      // Too late, if it is lost.
      if (now() < this.#until) {
        this.#until = Math.max(this.#until, giveUpAt(sentAt, this.ttlMs));
        this.told.until(this.#until);
        this.#next = sentAt + this.#soon();
      }
      return this.#plan();
    }
    const { error } = result;
    if (error instanceof EndedError || error.code === "unknown_request") {
      const reason = error instanceof EndedError ? (error.endReason ?? "owner_dead") : "unknown";
      return this.told.lost(reason);
    }
    this.#next = Math.min(this.#next, now() + Math.min(this.ttlMs / 12, 1_000));
    this.#plan();
  }
}
