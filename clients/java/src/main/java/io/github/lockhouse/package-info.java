/**
 * A distributed counting semaphore: N workers, on any number of machines, do something at the same time, and no
 * more than N. Start at {@link io.github.lockhouse.Lockhouse}.
 */
package io.github.lockhouse;
