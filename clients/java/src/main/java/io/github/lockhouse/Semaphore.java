package io.github.lockhouse;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** A handle on a named semaphore, with the words of {@link java.util.concurrent.Semaphore}. */
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

    /** A handle whose holds outlive their last renewal by {@code ttl}. */
    public Semaphore withTtl(Duration ttl) {
        return new Semaphore(lockhouse, name, capacity, ttl);
    }

    /** Waits for a permit and takes it. */
    public Permit acquire() throws InterruptedException {
        return acquire(1);
    }

    /** Waits for permits and takes them, all at once. */
    public Permit acquire(int permits) throws InterruptedException {
        return acquire(permits, null);
    }

    /** Takes a permit if there is room now and nobody waits for it. */
    public Optional<Permit> tryAcquire() throws InterruptedException {
        return tryAcquire(1);
    }

    /** Takes permits if there is room now and nobody waits for it. */
    public Optional<Permit> tryAcquire(int permits) throws InterruptedException {
        return tryAcquire(permits, 0, TimeUnit.SECONDS);
    }

    /** Waits for a permit, at most so long, and takes it. */
    public Optional<Permit> tryAcquire(long timeout, TimeUnit unit) throws InterruptedException {
        return tryAcquire(1, timeout, unit);
    }

    /** Waits for permits, at most so long, and takes them. */
    public Optional<Permit> tryAcquire(int permits, long timeout, TimeUnit unit) throws InterruptedException {
        try {
            return Optional.of(acquire(permits, Duration.ofNanos(unit.toNanos(Math.max(timeout, 0)))));
        } catch (ExhaustedException error) {
            return Optional.empty();
        }
    }

    /** How many permits are free now: for people to look at, as another may take them meanwhile. */
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
