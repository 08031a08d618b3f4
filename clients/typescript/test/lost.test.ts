import { Lockhouse, LostError, type Permit, type Session } from "lockhouse";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";

import { startServer } from "./server.js";

let server: Awaited<ReturnType<typeof startServer>>;
let lh: Lockhouse;
let count = 0;
let name: string;

beforeAll(async () => {
  server = await startServer();
  lh = new Lockhouse({ url: server.url });
});

afterAll(() => server.stop());

beforeEach(async () => {
  name = `s${count++}`;
  await lh.define(name, 5);
});

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const acquire = () => lh.acquire({ [name]: 1 }, { ttlMs: 900 });
const aborted = (it: Permit | Session) => expect.poll(() => it.signal.aborted, { timeout: 5_000 }).toBe(true);

async function lose(permit: Permit): Promise<void> {
  await lh.force(permit.externalId);
  await aborted(permit);
}

const forced = { code: "lost", reason: "forced" };
const isLost = async (work: Promise<unknown>, like: object = forced) => {
  const error: unknown = await work.catch((it: unknown) => it);
  expect(error).toBeInstanceOf(LostError);
  expect(error).toMatchObject(like);
};

describe("a block of await using", () => {
  test("throws LostError after throwIfLost", () =>
    isLost(
      (async () => {
        await using permit = await acquire();
        await lose(permit);
        permit.throwIfLost();
      })(),
    ));

  test("throws LostError without any check", () =>
    isLost(
      (async () => {
        await using permit = await acquire();
        await lose(permit);
      })(),
    ));

  test("throws the loss of a session once for it and its permits", () =>
    isLost(
      (async () => {
        await using session = await lh.session(name, 900);
        await using _one = await session.acquire({ [name]: 1 });
        await using _other = await session.acquire({ [name]: 1 });
        await lh.goodbye(name);
        await aborted(session);
      })(),
      { reason: "owner_dead" },
    ));

  test("has the block's own error in the SuppressedError", async () => {
    const mine = new Error("mine");
    const block = (async () => {
      await using permit = await acquire();
      await lose(permit);
      throw mine;
    })();
    const error = (await block.catch((it: unknown) => it)) as SuppressedError;
    expect(error.error).toBeInstanceOf(LostError);
    expect(error.suppressed).toBe(mine);
  });
});

describe("run", () => {
  const runs = {
    "of the client": (work: (permit: Permit) => Promise<unknown>) => lh.run({ [name]: 1 }, work, { ttlMs: 900 }),
    "of a semaphore": (work: (permit: Permit) => Promise<unknown>) => lh.semaphore(name).run(work, { ttlMs: 900 }),
  };

  test.each(Object.entries(runs))("%s rejects with LostError after throwIfLost", (_, run) =>
    isLost(
      run(async (permit) => {
        await lose(permit);
        permit.throwIfLost();
      }),
    ),
  );

  test.each(Object.entries(runs))("%s rejects with the reason of the signal", (_, run) =>
    isLost(
      run(async (permit) => {
        await lose(permit);
        permit.signal.throwIfAborted();
      }),
    ),
  );

  test.each(Object.entries(runs))("%s rejects with LostError although the work has caught it", (_, run) =>
    isLost(
      run(async (permit) => {
        await lose(permit);
        expect(() => permit.throwIfLost()).toThrow(LostError);
      }),
    ),
  );

  test.each(Object.entries(runs))("%s rejects with the work's own error first", async (_, run) => {
    const mine = new Error("mine");
    const work = run(async (permit) => {
      await lose(permit);
      throw mine;
    });
    await expect(work).rejects.toBe(mine);
  });

  test.each(Object.entries(runs))("%s resolves with what the work returns, and releases", async (_, run) => {
    expect(await run(async () => 42)).toBe(42);
    expect((await lh.status(name)).inUse).toBe(0);
  });
});

test.each([
  ["a worker", () => new Lockhouse({ url: server.url })],
  ["fetch", () => new Lockhouse({ url: server.url, fetch })],
])("a released permit is never lost, by %s", async (_, make) => {
  const client = make();
  const session = await client.session(name, 1_000);
  const own = await client.acquire({ [name]: 1 }, { ttlMs: 1_000 });
  const kept = await session.acquire({ [name]: 1 });
  expect([await own.release(), await kept.release()]).toEqual([true, true]);
  await session.goodbye();
  await sleep(1_200);
  for (const permit of [own, kept]) {
    expect([permit.lost, permit.signal.aborted]).toEqual([undefined, false]);
    permit.throwIfLost();
    await permit[Symbol.asyncDispose]();
  }
});

test("a permit that was lost stays lost after its release", async () => {
  const permit = await acquire();
  await lose(permit);
  expect(await permit.release()).toBe(false);
  expect([permit.lost, permit.signal.aborted]).toEqual(["forced", true]);
});

test("a permit of a session is lost with it", async () => {
  const session = await lh.session(name, 900);
  const permit = await session.acquire({ [name]: 1 });
  await lh.goodbye(name);
  await aborted(permit);
  expect([permit.lost, session.lost]).toEqual(["owner_dead", "owner_dead"]);
  expect(() => permit.throwIfLost()).toThrow(LostError);
});
