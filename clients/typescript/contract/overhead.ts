/** How long an acquire and its release take by the client, and as two bare calls on one connection. */
import { randomUUID } from "node:crypto";
import { Agent, request } from "node:http";

import type { Lockhouse } from "lockhouse";

const agent = new Agent({ keepAlive: true });

export async function overhead(lh: Lockhouse, url: string, semaphore: string, times: number) {
  const body = JSON.stringify({ permits: [{ semaphore, count: 1 }], ttl_ms: 30_000, wait_ms: 0 });
  const bare = async () => {
    const path = `${url.replace(/\/$/, "")}/v1/requests/${randomUUID()}`;
    await call("PUT", path, body);
    await call("DELETE", path);
  };
  const byClient = async () => {
    await (await lh.acquire({ [semaphore]: 1 }, { waitMs: 0 })).release();
  };
  const took = { bare_us: [] as number[], client_us: [] as number[] };
  for (let i = 0; i < times; i++) {
    took.bare_us.push(await tookUs(bare));
    took.client_us.push(await tookUs(byClient));
  }
  return took;
}

function call(method: string, url: string, body?: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const sent = request(url, { method, headers, agent }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => (text += chunk));
      answer.on("end", () => resolve(JSON.parse(text)));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

async function tookUs(what: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await what();
  return (performance.now() - began) * 1_000;
}
