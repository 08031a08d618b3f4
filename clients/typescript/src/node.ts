import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { IncomingMessage } from "node:http";

import { BrokenError, type Answer, type Sent, type Settings, type Transport } from "./transport.js";

/** Shorter than servers and proxies keep an idle connection. */
const IDLE_MS = 15_000;
const CONNECT_MS = 3_000;

/** Node's own HTTP, as its `fetch` takes no certificate authority. */
export function nodeTransport(settings: Settings): Transport {
  const isTls = settings.url.startsWith("https:");
  const options = { keepAlive: true, scheduling: "lifo" as const, timeout: IDLE_MS };
  const agent = isTls ? new HttpsAgent({ ...options, ca: settings.ca }) : new HttpAgent(options);
  const request = isTls ? httpsRequest : httpRequest;

  function send(sent: Sent): Promise<Answer> {
    return new Promise((resolve, reject) => {
      let isConnected = false;
      let why: unknown;
      const { method, headers } = sent;
      const call = request(sent.url, { method, headers, agent });
      const giveUp = (reason: unknown) => {
        why ??= reason;
        call.destroy();
      };
      const timer = setTimeout(
        () => giveUp(new BrokenError("it did not answer in time", isConnected)),
        sent.timeoutMs,
      );
      let connecting: NodeJS.Timeout | undefined;
      const onAbort = () => giveUp(sent.signal?.reason);
      sent.signal?.addEventListener("abort", onAbort);
      const settle = () => {
        clearTimeout(timer);
        clearTimeout(connecting);
        sent.signal?.removeEventListener("abort", onAbort);
      };
      call.on("socket", (socket) => {
        const connected = () => {
          isConnected = true;
          clearTimeout(connecting);
        };
        if (!socket.connecting) return connected();
        connecting = setTimeout(() => giveUp(new BrokenError("it can't be reached", false)), CONNECT_MS);
        socket.once(isTls ? "secureConnect" : "connect", connected);
      });
      const fail = (error: Error) => {
        settle();
        reject(why ?? broken(error, isConnected));
      };
      call.on("error", fail);
      call.on("response", (response) => {
        read(response).then((answer) => {
          settle();
          resolve(answer);
        }, fail);
      });
      if (sent.signal?.aborted) return onAbort();
      call.end(sent.body);
    });
  }

  return { send, close: () => agent.destroy() };
}

function read(response: IncomingMessage): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let body = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => (body += chunk));
    response.on("error", reject);
    response.on("end", () => {
      const header = (name: string) => {
        const value = response.headers[name];
        return Array.isArray(value) ? value[0] : value;
      };
      resolve({ status: response.statusCode ?? 0, header, body });
    });
  });
}

function broken(error: Error & { code?: string }, isConnected: boolean): BrokenError {
  const mayRetry = isConnected || !/CERT|SIGNATURE|ERR_TLS/.test(error.code ?? "");
  return new BrokenError(`the connection was lost: ${error.message}`, isConnected, mayRetry);
}
