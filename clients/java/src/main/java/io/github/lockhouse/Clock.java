package io.github.lockhouse;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The monotonic clock, and the thread that keeps time. That thread never blocks: calls are asynchronous. */
final class Clock {
    /** So long that its end is never reached. */
    static final long FOREVER_NANOS = Long.MAX_VALUE / 4;

    private static final ScheduledThreadPoolExecutor KEEPER = new ScheduledThreadPoolExecutor(1, work -> {
        Thread thread = new Thread(work, "lockhouse-keeper");
        thread.setDaemon(true);
        return thread;
    });

    static {
        KEEPER.setRemoveOnCancelPolicy(true);
    }

    private Clock() {}

    static long now() {
        return System.nanoTime();
    }

    static long in(Duration duration) {
        return now() + nanos(duration);
    }

    static long nanos(Duration duration) {
        if (duration.isNegative()) {
            return 0;
        }
        boolean isLong = duration.compareTo(Duration.ofNanos(FOREVER_NANOS)) >= 0;
        return isLong ? FOREVER_NANOS : duration.toNanos();
    }

    /** A duration as the API has it. Fractions of a millisecond are cut off. */
    static long millis(Duration duration) {
        try {
            return duration.toMillis();
        } catch (ArithmeticException error) {
            String detail = "the duration " + duration + " is out of range; a TTL has at most 366 days";
            throw new RefusedException("invalid_request", detail, Map.of());
        }
    }

    /** Runs {@code what}, which must not block, at {@code at}. */
    static Future<?> at(long at, Runnable what) {
        return KEEPER.schedule(what, at - now(), TimeUnit.NANOSECONDS);
    }
}
