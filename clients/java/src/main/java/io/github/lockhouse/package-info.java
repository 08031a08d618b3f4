/**
 * A distributed counting semaphore: N workers, on any number of machines, do something at the same time, and no
 * more than N. Start at {@link io.github.lockhouse.Lockhouse}.
 *
 * <p>All exceptions are unchecked: {@link io.github.lockhouse.LockhouseException} is their base. Threads may share clients,
 * semaphores, permits and sessions.
 */
package io.github.lockhouse;
