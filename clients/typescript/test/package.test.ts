/** The tarball, installed into a fresh folder; and the README's tour, as printed. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, test } from "vitest";

import { startServer } from "./server.js";

const PROJECT = new URL("..", import.meta.url).pathname;

test("the tour runs from a fresh install", async () => {
  const readme = readFileSync(join(PROJECT, "README.md"), "utf8");
  const tour = /^```ts\n(.*?)^```/ms.exec(readme)?.[1];
  if (tour === undefined) throw new Error("the README has no tour");
  const folder = mkdtempSync(join(tmpdir(), "lockhouse-"));
  const server = await startServer();
  const run = (command: string, ...of: string[]) =>
    execFileSync(command, of, {
      cwd: folder,
      encoding: "utf8",
      env: { ...process.env, LOCKHOUSE_URL: server.url },
      stdio: ["ignore", "pipe", "inherit"],
    });
  try {
    const packed = run("npm", "pack", "--silent", "--pack-destination", folder, PROJECT).trim().split("\n").pop();
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
    run("npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", `./${packed}`);
    writeFileSync(join(folder, "tour.ts"), tour);
    const compiler = join(PROJECT, "node_modules", "typescript", "bin", "tsc");
    const types = ["--typeRoots", join(PROJECT, "node_modules", "@types"), "--types", "node"];
    // Without skipLibCheck, so that the package's declarations are checked by somebody who has only those.
    const strict = ["--strict", "--target", "ES2022", "--lib", "ES2023,ESNext.Disposable", "--module", "NodeNext"];
    run(process.execPath, compiler, ...strict, ...types, "tour.ts");
    const told = run(process.execPath, "tour.js");
    for (const line of ["one of ten, fence 1", "size 42", "both, fences 1 1", "in use 3", "exceeds_capacity"]) {
      expect(told).toContain(line);
    }
    const manifest = JSON.parse(readFileSync(join(folder, "node_modules/lockhouse/package.json"), "utf8"));
    expect(manifest.dependencies).toBeUndefined();
  } finally {
    server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}, 180_000);
