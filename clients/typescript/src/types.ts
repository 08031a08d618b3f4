/** The state of a semaphore when the server answered. */
export interface SemaphoreStatus {
  name: string;
  capacity: number;
  /** How many permits are held. */
  inUse: number;
  /** How many permits are free. */
  available: number;
  /** How many calls wait. */
  waiting: number;
  /** The highest fence so far. */
  fence: number;
  /** Whether its permits have slots. */
  slots: boolean;
  /** The pattern of the template that created it. */
  template: string | null;
  createdAt: Date;
  updatedAt: Date;
}

/** The permits of a request on one semaphore. */
export interface HeldPermit {
  semaphore: string;
  count: number;
  fence: number;
  slots: number[];
}

/** A request that was granted, held or ended. */
export interface RequestStatus {
  externalId: string;
  /** `acquired` while it is held, then `released`. */
  state: "acquired" | "released";
  /** Why it ended: `released`, `expired`, `owner_dead`, `stale` or `forced`. */
  endReason: string | null;
  /** The caller that released it or ended it by force. */
  endedBy: string | null;
  owner: string | null;
  permits: HeldPermit[];
  ttlMs: number | null;
  expiresAt: Date | null;
  createdAt: Date;
  releasedAt: Date | null;
}

/** An entry of a semaphore's history. */
export interface CapacityChange {
  oldCapacity: number;
  newCapacity: number;
  changedBy: string | null;
  note: string | null;
  changedAt: Date;
}

/** A call that waits for a semaphore. */
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
