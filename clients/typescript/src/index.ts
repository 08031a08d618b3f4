// Some runtimes that have fetch and workers do not have these yet.
(Symbol as { asyncDispose: symbol }).asyncDispose ??= Symbol.for("Symbol.asyncDispose");

export { Lockhouse, type AskOptions, type DefineOptions, type Options } from "./client.js";
export {
  DeniedError,
  EndedError,
  ExhaustedError,
  LockhouseError,
  LostError,
  RefusedError,
  UnavailableError,
} from "./errors.js";
export { Permit } from "./permit.js";
export { Semaphore, type SemaphoreOptions } from "./semaphore.js";
export { Session } from "./session.js";
export type { CapacityChange, HeldPermit, RequestStatus, SemaphoreStatus, Template, Waiter } from "./types.js";
