// Acquires and releases by the types that openapi-typescript generates.
import type { components, operations } from "./lockhouse.js";

type Request = components["schemas"]["Request"];
type Acquire = operations["acquire"]["requestBody"]["content"]["application/json"];

const [url] = process.argv.slice(2);

async function call<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as Answer;
}

await call("PUT", "/v1/semaphores/typescript", { capacity: 1 });
const ask: Acquire = { permits: [{ semaphore: "typescript" }], ttl_ms: 60_000 };
const granted = await call<Request>("PUT", "/v1/requests/typescript", ask);
if (granted.permits[0]?.fence !== 1) throw new Error(JSON.stringify(granted));
const released = await call<components["schemas"]["Released"]>("DELETE", "/v1/requests/typescript");
if (!released.released) throw new Error(JSON.stringify(released));
