/** The base of all errors of this package. `code` is the server's stable word to branch on. */
export class LockhouseError extends Error {
  override readonly name: string = "LockhouseError";
  /** Whether the call, or a try of it whose answer was lost, may have been done. */
  maybeApplied: boolean;

  constructor(
    readonly code: string,
    readonly detail: string,
    /** The server's problem document, with members such as `semaphores`. */
    readonly problem: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(`${code}: ${detail}`, options);
    this.maybeApplied = problem["maybe_applied"] === true;
  }
}

/** The server refused the call; the same call again is refused again. */
export class RefusedError extends LockhouseError {
  override readonly name: string = "RefusedError";
}

/** There was no room, or none within the wait. */
export class ExhaustedError extends RefusedError {
  override readonly name = "ExhaustedError";
}

/** The request or the session has ended. */
export class EndedError extends RefusedError {
  override readonly name = "EndedError";

  /** Why the request ended, if the server said so. */
  get endReason(): string | undefined {
    const reason = this.problem["end_reason"];
    return typeof reason === "string" ? reason : undefined;
  }
}

/** There is no valid token, or it lacks a grant. */
export class DeniedError extends RefusedError {
  override readonly name = "DeniedError";
}

/** There was no answer in time. The call may have been done; the same call with the same id is safe. */
export class UnavailableError extends LockhouseError {
  override readonly name = "UnavailableError";
}

/**
 * A hold was lost before it was released: somebody else may hold the permits now.
 *
 * `reason` is `not_renewed` (no renewal got through in time), `unknown` (the server does not know it), or the
 * server's end reason: `released`, `expired`, `owner_dead`, `stale`, `forced`.
 */
export class LostError extends LockhouseError {
  override readonly name = "LostError";

  constructor(
    what: string,
    readonly reason: string,
  ) {
    super("lost", `the hold of ${what} was lost: ${reason}`);
  }
}

type ErrorClass = typeof RefusedError | typeof UnavailableError;

const CLASSES: Readonly<Record<string, ErrorClass>> = {
  exhausted: ExhaustedError,
  request_ended: EndedError,
  session_ended: EndedError,
  unauthenticated: DeniedError,
  forbidden: DeniedError,
  store_unavailable: UnavailableError,
  overloaded: UnavailableError,
  internal: UnavailableError,
};

/** The error that a problem document describes. */
export function ofProblem(code: string, problem: Record<string, unknown>): LockhouseError {
  return new (CLASSES[code] ?? RefusedError)(code, String(problem["detail"] ?? ""), problem);
}
