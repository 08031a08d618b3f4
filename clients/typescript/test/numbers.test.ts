/** Numbers that JSON does not have, and fractions. */
import { ExhaustedError, Lockhouse, RefusedError } from "lockhouse";
import { afterAll, beforeAll, expect, test } from "vitest";

import { startServer } from "./server.js";

let server: Awaited<ReturnType<typeof startServer>>;
let lh: Lockhouse;

beforeAll(async () => {
  server = await startServer();
  lh = new Lockhouse({ url: server.url });
  await lh.define("s", 5);
});

afterAll(() => server.stop());

const one = { s: 1 };

test.each([
  ["ttlMs", (it: number) => lh.acquire(one, { ttlMs: it })],
  ["ttlMs of a semaphore", (it: number) => lh.semaphore("s").tryAcquire({ ttlMs: it })],
  ["ttlMs of run", (it: number) => lh.run(one, () => {}, { ttlMs: it })],
  ["ttlMs of a session", (it: number) => lh.session("worker", it)],
  ["ttlMs of renew", (it: number) => lh.renew("x", it)],
  ["priority", (it: number) => lh.acquire(one, { priority: it })],
  ["a count", (it: number) => lh.acquire({ s: it })],
  ["a capacity", (it: number) => lh.define("t", it)],
  ["expectedCapacity", (it: number) => lh.define("s", 5, { expectedCapacity: it })],
  ["idleMs", (it: number) => lh.setTemplate("customer/*", 2, { idleMs: it })],
])("%s must be finite", async (_, call) => {
  for (const number of [NaN, Infinity, -Infinity]) {
    const refused = call(number);
    await expect(refused).rejects.toBeInstanceOf(RefusedError);
    await expect(refused).rejects.toMatchObject({ code: "invalid_request", maybeApplied: false });
  }
  expect((await lh.status("s")).inUse).toBe(0);
});

test("a TTL that is no time is refused", async () => {
  for (const ttlMs of [0, -0.5, -1, 1e300]) {
    await expect(lh.acquire(one, { ttlMs })).rejects.toMatchObject({ code: "invalid_request" });
  }
});

test("a wait must be a number; one that is over does not wait, and Infinity has no bound", async () => {
  await expect(lh.acquire(one, { waitMs: NaN })).rejects.toMatchObject({ code: "invalid_request" });
  await using _ = await lh.acquire({ s: 5 }, { waitMs: Infinity });
  for (const waitMs of [-1, -Infinity]) {
    await expect(lh.acquire(one, { waitMs })).rejects.toBeInstanceOf(ExhaustedError);
  }
});

test("fractions of a millisecond are rounded up", async () => {
  await using permit = await lh.acquire(one, { ttlMs: 1_000.2, waitMs: 0.5 });
  expect(permit.request.ttlMs).toBe(1_001);
  expect((await lh.renew(permit.externalId, 1_500.5)).ttlMs).toBe(1_501);
  await using _session = await lh.session("worker", 1_000.7);
  expect((await lh.setTemplate("customer/*", 2, { idleMs: 60_000.1 })).idleMs).toBe(60_001);
});

test("a timeout must be a number above 0, of any length", async () => {
  for (const timeoutMs of [NaN, 0, -1]) expect(() => new Lockhouse({ timeoutMs })).toThrow(TypeError);
  for (const timeoutMs of [2 ** 32, Infinity]) {
    for (const options of [{}, { fetch }]) {
      const client = new Lockhouse({ url: server.url, timeoutMs, ...options });
      expect((await client.status("s")).capacity).toBe(5);
      expect(await client.ready()).toBe(true);
    }
  }
});

test("a listing can be read again", async () => {
  const listing = lh.semaphores();
  const names = async () => {
    const all: string[] = [];
    for await (const it of listing) all.push(it.name);
    return all;
  };
  expect(await names()).toEqual(["s"]);
  expect(await names()).toEqual(["s"]);
});
