package io.github.lockhouse;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * A handle on a named semaphore, with the methods of {@link java.util.concurrent.Semaphore}. It holds nothing itself, and is
 * safe for many threads. Made by {@link Lockhouse#semaphore}.
 *
 * <p>Each call goes to the server. All throw {@link UnavailableException} if no server answers within the client's timeout,
 * beyond the wait, and {@link RefusedException} if the server refuses the call.
 */
public final class Semaphore {
    private final Lockhouse lockhouse;
    private final String name;
    private final Integer capacity;
    private final Duration ttl;

    Semaphore(Lockhouse lockhouse, String name, Integer capacity, Duration ttl) {
        this.lockhouse = lockhouse;
        this.name = name;
        this.capacity = capacity;
        this.ttl = ttl;
    }

    /** A handle that creates the semaphore on first use, if there is none. One that exists keeps its capacity. */
    public Semaphore orCreate(int capacity) {
        return new Semaphore(lockhouse, name, capacity, ttl);
    }

    /** A handle whose holds outlive their last renewal by {@code ttl}; {@link Request#DEFAULT_TTL} unless set. */
    public Semaphore withTtl(Duration ttl) {
        return new Semaphore(lockhouse, name, capacity, ttl);
    }

    /** Waits for a permit, as long as it takes, and takes it. An interrupt leaves the line. */
    public Permit acquire() throws InterruptedException {
        return acquire(1);
    }

    /** Waits for permits, as long as it takes, and takes them, all at once. An interrupt leaves the line. */
    public Permit acquire(int permits) throws InterruptedException {
        return acquire(permits, null);
    }

    /** Takes a permit if there is room now and nobody waits for it; otherwise returns empty. */
    public Optional<Permit> tryAcquire() throws InterruptedException {
        return tryAcquire(1);
    }

    /** Takes permits if there is room now and nobody waits for it; otherwise returns empty. */
    public Optional<Permit> tryAcquire(int permits) throws InterruptedException {
        return tryAcquire(permits, 0, TimeUnit.SECONDS);
    }

    /** Waits for a permit, for at most {@code timeout}, and takes it; empty if there was no room in time. */
    public Optional<Permit> tryAcquire(long timeout, TimeUnit unit) throws InterruptedException {
        return tryAcquire(1, timeout, unit);
    }

    /** Waits for permits, for at most {@code timeout}, and takes them, all at once; empty if there was no room in time. */
    public Optional<Permit> tryAcquire(int permits, long timeout, TimeUnit unit) throws InterruptedException {
        try {
            return Optional.of(acquire(permits, Duration.ofNanos(unit.toNanos(Math.max(timeout, 0)))));
        } catch (ExhaustedException error) {
            return Optional.empty();
        }
    }

    /** How many permits are free now. Another caller may take them meanwhile. The semaphore must exist. */
    public int availablePermits() {
        return lockhouse.status(name).available();
    }

    private Permit acquire(int permits, Duration atMost) throws InterruptedException {
        Request request = lockhouse.request().permits(name, permits).ttl(ttl).atMost(atMost);
        try {
            return request.acquire();
        } catch (RefusedException error) {
            if (capacity == null || !error.code().equals("unknown_semaphore")) {
                throw error;
            }
        }
        lockhouse.defineIfMissing(name, capacity);
        return request.acquire();
    }
}
