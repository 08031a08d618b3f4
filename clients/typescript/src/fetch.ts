import { BrokenError, type Answer, type Sent, type Transport } from "./transport.js";

/** The `fetch` of browsers and of other runtimes. Which of its calls were sent is not known. */
export function fetchTransport(fetch: typeof globalThis.fetch): Transport {
  async function send(sent: Sent): Promise<Answer> {
    const controller = new AbortController();
    const onAbort = () => controller.abort(sent.signal?.reason);
    const late = new BrokenError("it did not answer in time", true);
    const timer = setTimeout(() => controller.abort(late), sent.timeoutMs);
    sent.signal?.addEventListener("abort", onAbort);
    if (sent.signal?.aborted) onAbort();
    try {
      const { method, headers, body } = sent;
      const request = { method, headers, body: body ?? null, redirect: "manual", cache: "no-store" } as const;
      const response = await fetch(sent.url, { ...request, signal: controller.signal });
      const text = await response.text();
      return { status: response.status, header: (name) => response.headers.get(name) ?? undefined, body: text };
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason;
      throw new BrokenError(`the connection was lost: ${error}`, true);
    } finally {
      clearTimeout(timer);
      sent.signal?.removeEventListener("abort", onAbort);
    }
  }

  return { send, close: () => {} };
}
