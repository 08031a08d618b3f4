/** One call of the API. A function as `body` makes the body for each try. */
export interface Call {
  method: string;
  path: string;
  body?: object | (() => object);
  headers?: Record<string, string>;
}

export interface Sent {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string | undefined;
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

export interface Answer {
  status: number;
  header(name: string): string | undefined;
  body: string;
}

/** There is no answer. `wasSent` says whether the call may have been done. */
export class BrokenError extends Error {
  constructor(
    message: string,
    readonly wasSent: boolean,
    readonly mayRetry: boolean = true,
  ) {
    super(message);
  }
}

/** Sends one call. Fails with `BrokenError`, or with the reason of its signal. */
export interface Transport {
  send(sent: Sent): Promise<Answer>;
  /** Ends the connections that no call uses. */
  close(): void;
}

/** The settings of a transport; a worker is given a copy. */
export interface Settings {
  url: string;
  token: string | undefined;
  /** Certificates of authorities, in PEM. */
  ca: string | undefined;
}
