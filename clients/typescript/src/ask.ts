import { LONGEST_MS, now } from "./clock.js";
import { DeniedError, LockhouseError, RefusedError, UnavailableError, ofProblem } from "./errors.js";
import { BrokenError, type Answer, type Call, type Settings, type Transport } from "./transport.js";
import { VERSION } from "./version.js";

const CALL_ID = "lockhouse-call-id";
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

/** An answer that says yes. `before`: an earlier try may have been done. */
export interface Asked {
  status: number;
  value: unknown;
  before: boolean;
}

interface Failure {
  error: LockhouseError;
  mayRetry: boolean;
  retryAfterMs: number;
}

/** Calls of one server. */
export class Caller {
  constructor(
    readonly settings: Settings,
    readonly transport: Transport,
    /** Whether a worker can make the same calls. */
    readonly mayUseWorker = false,
  ) {}

  /**
   * Asks until there is an answer, the signal aborts, or the deadline passes. Every call of the API is safe to
   * repeat, so a failed connection, a lost answer and a server that says "try again" are all met by asking
   * again. Only the deadline bounds the tries.
   */
  async ask(call: Call, deadline: number, signal?: AbortSignal): Promise<Asked> {
    let before = false;
    for (let retry = 0; ; retry++) {
      const result = await this.once(call, deadline, signal);
      if (!("error" in result)) return { ...result, before };
      const { error, mayRetry, retryAfterMs } = result;
      before ||= error.maybeApplied;
      const pause = Math.max(pauseMs(retry), retryAfterMs);
      if (!mayRetry || now() + pause >= deadline) {
        error.maybeApplied = before;
        throw error;
      }
      await sleep(pause, signal);
    }
  }

  /** One try. It throws only the reason of the signal, and what `json` throws. */
  async once(call: Call, deadline: number, signal?: AbortSignal): Promise<Omit<Asked, "before"> | Failure> {
    const id = crypto.randomUUID();
    const body = typeof call.body === "function" ? call.body() : call.body;
    const headers: Record<string, string> = { accept: "application/json", [CALL_ID]: id, ...call.headers };
    if (this.settings.token) headers["authorization"] = `Bearer ${this.settings.token}`;
    if (body) headers["content-type"] = "application/json";
    if (typeof process === "object") headers["user-agent"] = `lockhouse-typescript/${VERSION}`;
    let answer: Answer;
    try {
      answer = await this.transport.send({
        method: call.method,
        url: this.settings.url + call.path,
        headers,
        body: body && json(body),
        timeoutMs: Math.min(Math.max(deadline - now(), 1), LONGEST_MS),
        signal,
      });
    } catch (error) {
      if (!(error instanceof BrokenError)) throw error;
      return this.broken(error);
    }
    if ((answer.header(CALL_ID) ?? id) !== id) {
      // A proxy that mixes up answers: no connection that there is can be trusted.
      this.transport.close();
      return this.broken(new BrokenError("the answer is to another call", true));
    }
    return this.read(answer);
  }

  private broken(broken: BrokenError): Failure {
    const detail = `${this.settings.url}: ${broken.message}`;
    const error = new UnavailableError("store_unavailable", detail, {}, { cause: broken });
    error.maybeApplied = broken.wasSent;
    return { error, mayRetry: broken.mayRetry, retryAfterMs: 0 };
  }

  private read(answer: Answer): Omit<Asked, "before"> | Failure {
    const { status } = answer;
    let value: unknown;
    try {
      value = answer.body ? JSON.parse(answer.body) : undefined;
    } catch {
      if (status >= 200 && status < 300) return final(this.foreign(answer));
    }
    if (status >= 200 && status < 300) return { status, value };
    const problem = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
    const code = typeof problem["code"] === "string" ? problem["code"] : undefined;
    const plain = new UnavailableError("store_unavailable", `${this.settings.url} answered ${status}`);
    if (status === 503 || status === 429) {
      const seconds = Number(answer.header("retry-after"));
      const retryAfterMs = seconds > 0 ? seconds * 1000 : 0;
      return { error: code ? ofProblem(code, problem) : plain, mayRetry: true, retryAfterMs };
    }
    const isOfTheApi = status !== 405 && !(status === 404 && code === "invalid_request");
    if (code && isOfTheApi) return final(ofProblem(code, problem));
    // Not the words of a server: those of a proxy before it, or of something else.
    if (status === 502 || status === 504) {
      plain.maybeApplied = true;
      return { error: plain, mayRetry: true, retryAfterMs: 0 };
    }
    if (status === 401) return final(new DeniedError("unauthenticated", plain.detail));
    if (status === 403) return final(new DeniedError("forbidden", plain.detail));
    return final(this.foreign(answer));
  }

  private foreign(answer: Answer): LockhouseError {
    const to = answer.header("location");
    const what = `${this.settings.url} answered ${answer.status || "a redirect"}${to ? ` to ${to}` : ""}`;
    return new RefusedError("invalid_request", `${what}; is it the URL of a lockhouse server?`);
  }
}

/** The JSON of a body. Durations in it become whole milliseconds, rounded up. */
function json(body: object): string {
  return JSON.stringify(body, (name, value: unknown) => {
    if (typeof value !== "number") return value;
    // It would become null, which stands for "not given".
    if (!Number.isFinite(value)) throw new RefusedError("invalid_request", `${name} must be a finite number, not ${value}`);
    return name.endsWith("_ms") ? Math.ceil(value) : value;
  });
}

function final(error: LockhouseError): Failure {
  return { error, mayRetry: false, retryAfterMs: 0 };
}

/** One to two times 50 ms, then twice that, up to two seconds. */
export function pauseMs(retry: number): number {
  return Math.min(FIRST_PAUSE_MS * 2 ** retry, LONGEST_PAUSE_MS) * (1 + Math.random());
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
