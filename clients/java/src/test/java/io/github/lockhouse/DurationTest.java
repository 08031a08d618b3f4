package io.github.lockhouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class DurationTest {
    private static final Duration LONGEST = Duration.ofSeconds(Long.MAX_VALUE);
    /** No times to live: too long for a count of milliseconds, too long for a server, shorter than a millisecond. */
    private static final List<Duration> REFUSED = List.of(
            LONGEST, LONGEST.negated(), Duration.ofDays(367), Duration.ofNanos(999_999), Duration.ZERO, Duration.ofHours(-1));

    private static TestServer server;
    private static Lockhouse lockhouse;

    @BeforeAll
    static void start() throws IOException {
        server = new TestServer();
        lockhouse = server.client();
        lockhouse.define("s", 5);
    }

    @AfterAll
    static void stop() throws IOException {
        lockhouse.close();
        server.close();
    }

    private static void refused(Executable call) {
        assertEquals("invalid_request", assertThrows(RefusedException.class, call).code());
    }

    @Test
    void whatIsNoTimeToLiveIsRefused() throws InterruptedException {
        Permit held = lockhouse.semaphore("s").acquire();
        for (Duration ttl : REFUSED) {
            refused(() -> lockhouse.request().permits("s", 1).ttl(ttl).acquire());
            refused(() -> lockhouse.semaphore("s").withTtl(ttl).tryAcquire());
            refused(() -> lockhouse.session("worker", ttl));
            refused(() -> lockhouse.renew(held.externalId(), ttl));
        }
        assertEquals(1, lockhouse.status("s").inUse());
        assertTrue(held.release());
    }

    @Test
    void anIdleTimeThatIsTooLongIsRefused() {
        refused(() -> lockhouse.setTemplate("customer/*", 2, LONGEST));
    }

    @Test
    void aWaitMayBeOfAnyLength() throws InterruptedException {
        lockhouse.request().permits("s", 1).atMost(LONGEST).acquire().release();
        lockhouse.semaphore("s").tryAcquire(Long.MAX_VALUE, TimeUnit.DAYS).orElseThrow().release();
        try (Permit all = lockhouse.semaphore("s").acquire(5)) {
            assertEquals(Optional.empty(), lockhouse.semaphore("s").tryAcquire(Long.MIN_VALUE, TimeUnit.DAYS));
            Request past = lockhouse.request().permits("s", 1).atMost(LONGEST.negated());
            assertThrows(ExhaustedException.class, past::acquire);
            all.throwIfLost();
        }
    }
}
