package io.github.lockhouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class LostTest {
    private static final AtomicInteger NUMBER = new AtomicInteger();
    private static TestServer server;
    private static Lockhouse lockhouse;

    private String name;

    @BeforeAll
    static void start() throws IOException {
        server = new TestServer();
        lockhouse = server.client();
    }

    @AfterAll
    static void stop() throws IOException {
        lockhouse.close();
        server.close();
    }

    @BeforeEach
    void nameOfItsOwn() {
        name = "s" + NUMBER.incrementAndGet();
        lockhouse.define(name, 5);
    }

    private void lose(Permit permit) throws InterruptedException {
        CountDownLatch told = new CountDownLatch(1);
        permit.onLost(lost -> told.countDown());
        lockhouse.force(permit.externalId());
        assertTrue(told.await(5, TimeUnit.SECONDS));
    }

    private void lose(Session session, String owner) throws InterruptedException {
        CountDownLatch told = new CountDownLatch(1);
        session.onLost(lost -> told.countDown());
        lockhouse.goodbye(owner);
        assertTrue(told.await(5, TimeUnit.SECONDS));
    }

    @Test
    void aLossThatTheBlockHasThrownLeavesItsBlock() {
        Semaphore semaphore = lockhouse.semaphore(name).withTtl(Duration.ofMillis(600));
        LostException lost = assertThrows(LostException.class, () -> {
            try (Permit permit = semaphore.acquire()) {
                lose(permit);
                permit.throwIfLost();
            }
        });
        assertEquals("forced", lost.reason());
    }

    @Test
    void aLossThatTheBlockHasTakenFromThePermitLeavesItsBlock() {
        Semaphore semaphore = lockhouse.semaphore(name).withTtl(Duration.ofMillis(600));
        assertThrows(LostException.class, () -> {
            try (Permit permit = semaphore.acquire()) {
                lose(permit);
                throw permit.lost().orElseThrow();
            }
        });
    }

    @Test
    void theLossOfASessionLeavesTheBlockOfItsPermits() {
        LostException lost = assertThrows(LostException.class, () -> {
            try (Session session = lockhouse.session(name, Duration.ofMillis(600));
                    Permit one = session.request().permits(name, 1).acquire();
                    Permit other = session.request().permits(name, 1).acquire()) {
                lose(session, name);
                assertTrue(one.isLost());
                assertTrue(other.isLost());
            }
        });
        assertEquals("owner_dead", lost.reason());
        assertEquals(2, lost.getSuppressed().length);
    }

    @Test
    void aReleasedPermitIsNeverLost() throws InterruptedException {
        AtomicBoolean isTold = new AtomicBoolean();
        Session session = lockhouse.session(name, Duration.ofSeconds(1));
        Permit own = lockhouse.semaphore(name).withTtl(Duration.ofSeconds(1)).acquire();
        Permit kept = session.request().permits(name, 1).acquire();
        for (Permit permit : new Permit[] {own, kept}) {
            permit.onLost(lost -> isTold.set(true));
            assertTrue(permit.release());
        }
        session.goodbye();
        TimeUnit.MILLISECONDS.sleep(1200);
        for (Permit permit : new Permit[] {own, kept}) {
            assertFalse(permit.isLost());
            assertEquals(Optional.empty(), permit.lost());
            permit.throwIfLost();
            permit.onLost(lost -> isTold.set(true));
            permit.close();
        }
        TimeUnit.MILLISECONDS.sleep(50);
        assertFalse(isTold.get());
    }

    @Test
    void aPermitThatWasLostStaysLostAfterItsRelease() throws InterruptedException {
        Permit permit = lockhouse.semaphore(name).withTtl(Duration.ofMillis(600)).acquire();
        lose(permit);
        assertFalse(permit.release());
        assertEquals("forced", permit.lost().orElseThrow().reason());
    }
}
