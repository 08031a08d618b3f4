import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BUILT = new URL("../../../target/release/lockhouse", import.meta.url).pathname;

/** A real server with its own database. */
export async function startServer(): Promise<{ url: string; stop: () => void }> {
  const folder = mkdtempSync(join(tmpdir(), "lockhouse-"));
  const database = `sqlite:${join(folder, "lockhouse.db")}`;
  const server = spawn(
    process.env["LOCKHOUSE_TEST_BINARY"] ?? BUILT,
    ["serve", "-o", "json", "--listen", "127.0.0.1:0", "--url", database],
    { env: { ...process.env, RUST_LOG: "warn" }, stdio: ["ignore", "pipe", "inherit"] },
  );
  for await (const line of createInterface({ input: server.stdout })) {
    const stop = () => {
      server.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    };
    return { url: (JSON.parse(line) as { url: string }).url, stop };
  }
  throw new Error("the server did not start");
}
