import { expect, test } from "vitest";

import { pauseMs } from "../src/ask.js";

const hundred = (retry: number) => Array.from({ length: 100 }, () => pauseMs(retry));

test.each([
  [0, 50, 100],
  [1, 100, 200],
  [100, 1_000, 2_000],
])("pause %i is from %i to %i ms", (retry, least, most) => {
  for (const pause of hundred(retry)) expect([pause >= least, pause <= most]).toEqual([true, true]);
});

test("clients that fail together do not come back together", () => {
  expect(new Set(hundred(3)).size).toBeGreaterThan(90);
});
