import { Lockhouse } from "lockhouse";
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
  await lh.define(name, 1);
});

let hasRun = false;

function* generator() {
  hasRun = true;
  yield 1;
}

async function* asyncGenerator() {
  hasRun = true;
  yield 1;
}

const runs = {
  "of the client": (work: () => unknown) => lh.run({ [name]: 1 }, work),
  "of a semaphore": (work: () => unknown) => lh.semaphore(name).run(work),
};

describe.each(Object.entries(runs))("run %s", (_, run) => {
  test.each([
    ["a generator function", generator],
    ["an async generator function", asyncGenerator],
    ["a bound generator function", generator.bind(undefined)],
  ])("takes no permit for %s, whose body would run after the release", async (_, work) => {
    await expect(run(work)).rejects.toThrow(TypeError);
    expect((await lh.status(name)).fence).toBe(0);
    expect(hasRun).toBe(false);
  });

  test.each([
    ["a generator", () => generator()],
    ["an async generator", () => asyncGenerator()],
    ["a promise of a generator", async () => generator()],
  ])("rejects when its function returns %s, and releases", async (_, work) => {
    await expect(run(work)).rejects.toThrow(TypeError);
    expect(await lh.status(name)).toMatchObject({ fence: 1, inUse: 0 });
    expect(hasRun).toBe(false);
  });

  test("takes a function that reads a generator to its end", async () => {
    expect(await run(() => [...generator()])).toEqual([1]);
    hasRun = false;
  });
});
