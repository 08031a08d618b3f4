import { defineConfig } from "vitest/config";

export default defineConfig({
  // The tests run the package that ships.
  resolve: { alias: { lockhouse: new URL("./dist/index.js", import.meta.url).pathname } },
  test: { testTimeout: 60_000, server: { deps: { external: [/dist/] } } },
});
