/** The package in a real browser: Chromium loads it from a page, whose server passes calls of the API on. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, test } from "vitest";

import { startServer } from "./server.js";

const DIST = new URL("../dist/", import.meta.url).pathname;
const WITHIN_MS = 60_000;

const QUIETLY = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

const PAGE = `<!doctype html><title>test</title><script type="module">
  const told = { failed: null };
  try {
    const { ExhaustedError, Lockhouse } = await import("/dist/index.js");
    const lh = new Lockhouse({ url: location.origin });
    const slots = lh.semaphore("slots", { capacity: 1 });
    const inUse = async () => (await lh.status("slots")).inUse;
    const permit = await slots.acquire({ ttlMs: 3_000 });
    told.fence = permit.fence();
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    told.lostAfterItsTtl = permit.lost ?? null;
    told.heldAfterItsTtl = await inUse();
    told.withoutRoom = await lh.acquire({ slots: 1 }, { waitMs: 0 }).catch((error) => error instanceof ExhaustedError);
    const stop = new AbortController();
    const waiting = slots.acquire({ signal: stop.signal });
    while ((await lh.waiting("slots")).length === 0);
    stop.abort(new Error("changed my mind"));
    told.aborted = await waiting.catch((error) => error.message);
    // Until the server knows, it may grant to the one that waited; that grant comes back, but a fence later.
    while ((await lh.waiting("slots")).length > 0);
    await permit.release();
    told.heldAtTheEnd = await inUse();
    told.ran = await slots.run(async (held) => held.fence());
  } catch (error) {
    told.failed = String(error?.stack ?? error);
  }
  await fetch("/told", { method: "POST", body: JSON.stringify(told) });
</script>`;

/** As a proxy before the server does, with the page's own host. */
function passOn(call: IncomingMessage, answer: ServerResponse, to: string): void {
  const { hostname, port } = new URL(to);
  const { method, url: path, headers } = call;
  const passed = request({ hostname, port, method, path, headers }, (answered) => {
    answer.writeHead(answered.statusCode ?? 502, answered.headers);
    answered.pipe(answer);
  });
  passed.on("error", () => answer.destroy());
  answer.on("close", () => passed.destroy());
  call.pipe(passed);
}

async function bodyOf(call: IncomingMessage): Promise<string> {
  let body = "";
  for await (const part of call) body += part;
  return body;
}

/** Serves the page, and resolves with what it tells. */
async function servePage(lockhouse: string) {
  let tell = (_: string) => {};
  const told = new Promise<string>((resolve) => (tell = resolve));
  const server = createServer((call, answer) => {
    const path = call.url ?? "/";
    if (path.startsWith("/v1/")) return passOn(call, answer, lockhouse);
    if (path === "/told") return void bodyOf(call).then((body) => (answer.end(), tell(body)));
    const file = /^\/dist\/([a-z]+\.js)$/.exec(path)?.[1];
    answer.setHeader("content-type", file ? "text/javascript" : "text/html");
    answer.end(file ? readFileSync(join(DIST, file)) : PAGE);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const stop = () => (server.closeAllConnections(), server.close());
  return { url: `http://127.0.0.1:${port}/`, told, stop };
}

function isInstalled(): boolean {
  try {
    execFileSync("chromium", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    if (process.env["LOCKHOUSE_TEST_FULL"]) throw new Error("Chromium is not installed; use scripts/test-clients");
    return false;
  }
}

test.skipIf(!isInstalled())("a page holds permits", { timeout: 2 * WITHIN_MS }, async () => {
  const server = await startServer();
  const page = await servePage(server.url);
  const profile = mkdtempSync(join(tmpdir(), "lockhouse-"));
  const options = { stdio: ["ignore", "pipe", "ignore"] as ["ignore", "pipe", "ignore"] };
  const chromium = spawn("chromium", [...QUIETLY, `--user-data-dir=${profile}`, page.url], options);
  // Its helpers, which write into the profile, have this pipe too: it closes when all of them have ended.
  const ended = new Promise((resolve) => chromium.once("close", resolve));
  chromium.stdout.resume();
  const late = setTimeout(() => chromium.kill(), WITHIN_MS);
  try {
    const told = await Promise.race([page.told, ended.then(() => '{"failed":"the browser ended"}')]);
    expect(JSON.parse(told)).toEqual({
      failed: null,
      fence: 1,
      lostAfterItsTtl: null,
      heldAfterItsTtl: 1,
      withoutRoom: true,
      aborted: "changed my mind",
      heldAtTheEnd: 0,
      ran: 2,
    });
  } finally {
    clearTimeout(late);
    chromium.kill();
    await ended;
    page.stop();
    server.stop();
    rmSync(profile, { recursive: true, force: true });
  }
});
