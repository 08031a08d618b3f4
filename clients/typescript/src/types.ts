/** How a semaphore stands. */
export interface SemaphoreStatus {
  name: string;
  capacity: number;
  inUse: number;
  available: number;
  waiting: number;
  fence: number;
  slots: boolean;
  template: string | null;
  createdAt: Date;
  updatedAt: Date;
}

/** What a request holds on one semaphore. */
export interface HeldPermit {
  semaphore: string;
  count: number;
  fence: number;
  slots: number[];
}

/** A granted request, live or ended. */
export interface RequestStatus {
  externalId: string;
  state: "acquired" | "released";
  endReason: string | null;
  endedBy: string | null;
  owner: string | null;
  permits: HeldPermit[];
  ttlMs: number | null;
  expiresAt: Date | null;
  createdAt: Date;
  releasedAt: Date | null;
}

export interface CapacityChange {
  oldCapacity: number;
  newCapacity: number;
  changedBy: string | null;
  note: string | null;
  changedAt: Date;
}

/** One in the line of a semaphore. */
export interface Waiter {
  externalId: string;
  owner: string | null;
  count: number;
  priority: number;
  since: Date;
}

/** A rule that creates semaphores on first use: `customer/*` has capacity 2. */
export interface Template {
  pattern: string;
  capacity: number;
  idleMs: number | null;
}

/** An answer's JSON with the names and the dates of JavaScript. */
export function ofWire<T>(wire: unknown): T {
  if (Array.isArray(wire)) return wire.map(ofWire) as T;
  if (typeof wire !== "object" || wire === null) return wire as T;
  const members = Object.entries(wire).map(([name, value]) => {
    const camel = name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    const isTime = /(_at|^since)$/.test(name) && typeof value === "string";
    return [camel, isTime ? new Date(value) : ofWire(value)];
  });
  return Object.fromEntries(members) as T;
}

/** Semaphores of older servers have no slots and no template. */
export function semaphoreOf(wire: unknown): SemaphoreStatus {
  const status = ofWire<SemaphoreStatus>(wire);
  return { ...status, slots: status.slots ?? false, template: status.template ?? null };
}

export function requestOf(wire: unknown): RequestStatus {
  const request = ofWire<RequestStatus>(wire);
  request.permits = request.permits.map((permit) => ({ ...permit, slots: permit.slots ?? [] }));
  return request;
}
