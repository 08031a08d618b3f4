/** Does what the contract's harness says, by this client. See ../../contract/README.md. */
import { createInterface } from "node:readline";

import { Lockhouse, LockhouseError, LostError, type AskOptions, type Permit, type Session } from "lockhouse";

import { overhead } from "./overhead.js";

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Command = any;
type Told = Record<string, unknown>;

let lh: Lockhouse;
const held = new Map<string, Permit | Session>();
const leaves = new Map<string, () => void>();
const cancels = new Map<number, AbortController>();

const operations: Record<string, (c: Command, signal: AbortSignal) => Promise<unknown>> = {
  connect: async (c) => {
    lh = new Lockhouse({ url: c.url, token: c.token, caFile: c.ca_file, timeoutMs: c.timeout_ms });
  },
  overhead: (c) => overhead(lh, c.url, c.semaphore, c.times),
  acquire: async (c, signal) => {
    const permit = await acquire(c, signal);
    holds(c.as, permit);
    const slots = Object.fromEntries(permit.request.permits.map((it) => [it.semaphore, it.slots]));
    return { external_id: permit.externalId, fences: permit.fences, slots };
  },
  block: async (c, signal) => {
    await using permit = await acquire(c, signal);
    holds(c.as, permit);
    const left = new Promise<void>((resolve) => leaves.set(c.as, resolve));
    say({ event: "entered", permit: c.as });
    await left;
  },
  leave: async (c) => leaves.get(c.permit)?.(),
  release: async (c) => ({ released: await (held.get(c.permit) as Permit).release() }),
  is_lost: async (c) => {
    const reason = held.get(c.permit)?.lost;
    return { lost: reason !== undefined, reason };
  },
  session: async (c) => holds(c.as, await lh.session(c.owner, c.ttl_ms)),
  goodbye: async (c) => ({ released: await (held.get(c.session) as Session).goodbye() }),
  define: async (c) => {
    const options = { slots: c.slots, note: c.note, expectedCapacity: c.expected_capacity };
    return wire(await lh.define(c.semaphore, c.capacity, options));
  },
  define_if_missing: async (c) => wire(await lh.defineIfMissing(c.semaphore, c.capacity)),
  resize: async (c) => wire(await lh.resize(c.semaphore, c.capacity)),
  status: async (c) => wire(await lh.status(c.semaphore)),
  delete: (c) => lh.delete(c.semaphore),
  list: async (c) => ({ semaphores: await all(lh.semaphores(c.prefix)) }),
  holders: async (c) => ({ requests: await all(lh.holders(c.semaphore)) }),
  requests: async (c) => ({ requests: await all(lh.requests({ owner: c.owner, semaphore: c.semaphore })) }),
  history: async (c) => ({ changes: wire(await lh.history(c.semaphore)) }),
  waiting: async (c) => ({ waiting: wire(await lh.waiting(c.semaphore)) }),
  find: async (c) => wire(await lh.find(c.external_id)),
  force: async (c) => ({ released: await lh.force(c.external_id, { by: c.by }) }),
  set_template: async (c) => wire(await lh.setTemplate(c.pattern, c.capacity, { idleMs: c.idle_ms })),
  templates: async () => ({ templates: await all(lh.templates()) }),
  delete_template: (c) => lh.deleteTemplate(c.pattern),
  cancel: async (c) => cancels.get(c.target)?.abort(new DOMException("cancelled", "AbortError")),
  busy: async (c) => {
    const end = performance.now() + c.ms;
    while (performance.now() < end); // The event loop stands still.
  },
};

function acquire(c: Command, signal: AbortSignal): Promise<Permit> {
  const options: AskOptions = { signal, priority: c.priority };
  if (c.external_id !== undefined) options.externalId = c.external_id;
  if (c.wait_ms !== undefined) options.waitMs = c.wait_ms;
  if (c.session !== undefined) return (held.get(c.session) as Session).acquire(c.permits, options);
  if (c.owner !== undefined) options.owner = c.owner;
  if (c.ttl_ms !== undefined) options.ttlMs = c.ttl_ms;
  if (c.semaphore !== undefined) return lh.semaphore(c.semaphore, { capacity: c.capacity }).acquire(options);
  return lh.acquire(c.permits, options);
}

function holds(name: string, it: Permit | Session): void {
  held.set(name, it);
  it.signal.addEventListener("abort", () => {
    say({ event: "lost", permit: name, reason: (it.signal.reason as LostError).reason });
  });
}

/** With the names of HTTP. */
function wire(it: unknown): unknown {
  if (Array.isArray(it)) return it.map(wire);
  if (typeof it !== "object" || it === null || it instanceof Date) return it;
  const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(it).map(([name, value]) => [snake(name), wire(value)]));
}

async function all<T>(items: AsyncIterable<T>): Promise<unknown> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return wire(found);
}

function say(message: Told): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

async function answer(command: Command): Promise<void> {
  const controller = new AbortController();
  cancels.set(command.id, controller);
  try {
    const told = await operations[command.op]?.(command, controller.signal);
    say({ id: command.id, ok: told ?? {} });
  } catch (error) {
    const { name, message } = error as Error;
    const code = error instanceof LockhouseError ? error.code : name === "AbortError" ? "cancelled" : name;
    say({ id: command.id, error: { code, detail: message } });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const command = JSON.parse(line);
  if (command.op !== "exit") return void answer(command);
  lines.close();
  process.stdin.destroy();
});
