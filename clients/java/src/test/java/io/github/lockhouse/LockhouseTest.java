package io.github.lockhouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class LockhouseTest {
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
    }

    private int inUse() {
        return lockhouse.status(name).inUse();
    }

    private static void eventually(BooleanSupplier condition) throws InterruptedException {
        long end = Clock.in(Duration.ofSeconds(5));
        while (!condition.getAsBoolean()) {
            assertTrue(end - Clock.now() > 0, "not within 5 s");
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }

    @Test
    void aBlockHasThePermit() throws InterruptedException {
        Semaphore semaphore = lockhouse.semaphore(name).orCreate(2);
        try (Permit permit = semaphore.acquire()) {
            assertEquals(1, permit.fence());
            assertEquals(1, permit.fence(name));
            assertEquals(List.of(), permit.slots());
            assertThrows(IllegalArgumentException.class, () -> permit.fence("none"));
            assertEquals(1, inUse());
        }
        assertEquals(0, inUse());
    }

    @Test
    void noMoreThanItsCapacityHoldAtOnce() throws InterruptedException {
        Semaphore semaphore = lockhouse.semaphore(name).orCreate(3);
        AtomicInteger now = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        CountDownLatch three = new CountDownLatch(3);
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            all.add(CompletableFuture.runAsync(() -> {
                try (Permit permit = semaphore.acquire()) {
                    most.accumulateAndGet(now.incrementAndGet(), Math::max);
                    three.countDown();
                    three.await();
                    TimeUnit.MILLISECONDS.sleep(5);
                    now.decrementAndGet();
                    permit.throwIfLost();
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            }, work -> new Thread(work).start()));
        }
        all.forEach(CompletableFuture::join);
        assertEquals(3, most.get());
        assertEquals(0, inUse());
    }

    @Test
    void anInterruptedWaitLeavesTheLine() throws InterruptedException {
        Semaphore semaphore = lockhouse.semaphore(name).orCreate(1);
        try (Permit held = semaphore.acquire()) {
            Thread waiter = new Thread(() -> assertThrows(InterruptedException.class, semaphore::acquire));
            waiter.start();
            eventually(() -> lockhouse.status(name).waiting() == 1);
            waiter.interrupt();
            waiter.join();
            eventually(() -> lockhouse.status(name).waiting() == 0);
            assertFalse(held.isLost());
        }
        assertEquals(0, inUse());
    }

    @Test
    void tryAcquireWaitsAtMostSoLong() throws InterruptedException {
        Semaphore semaphore = lockhouse.semaphore(name).orCreate(1);
        try (Permit held = semaphore.acquire()) {
            assertEquals(Optional.empty(), semaphore.tryAcquire());
            long began = Clock.now();
            assertEquals(Optional.empty(), semaphore.tryAcquire(1, 200, TimeUnit.MILLISECONDS));
            assertTrue(Clock.now() - began >= TimeUnit.MILLISECONDS.toNanos(200));
            assertEquals(Optional.empty(), semaphore.tryAcquire(1, TimeUnit.MILLISECONDS));
            assertEquals(0, semaphore.availablePermits());
            assertFalse(held.isLost());
        }
        assertTrue(semaphore.tryAcquire().orElseThrow().release());
    }

    @Test
    void aLostHoldTellsAndItsBlockThrows() throws InterruptedException {
        CompletableFuture<LostException> told = new CompletableFuture<>();
        Semaphore semaphore = lockhouse.semaphore(name).orCreate(1).withTtl(Duration.ofMillis(600));
        LostException lost = assertThrows(LostException.class, () -> {
            try (Permit permit = semaphore.acquire()) {
                permit.onLost(told::complete);
                lockhouse.force(permit.externalId(), "operator");
                assertEquals("forced", told.get(3, TimeUnit.SECONDS).reason());
                assertTrue(permit.isLost());
            }
        });
        assertEquals("forced", lost.reason());
        assertEquals("lost", lost.code());
    }

    @Test
    void anErrorOfTheBlockGoesThrough() {
        ArithmeticException error = assertThrows(ArithmeticException.class, () -> {
            try (Permit permit = lockhouse.semaphore(name).orCreate(1).acquire()) {
                lockhouse.force(permit.externalId(), "operator");
                throw new ArithmeticException();
            }
        });
        assertInstanceOf(LostException.class, error.getSuppressed()[0]);
    }

    @Test
    void aReleaseGoesThroughForAnInterruptedThread() throws InterruptedException {
        Permit permit = lockhouse.semaphore(name).orCreate(1).acquire();
        Thread.currentThread().interrupt();
        assertTrue(permit.release());
        assertTrue(Thread.interrupted());
        assertFalse(permit.release());
        assertEquals(0, inUse());
    }

    @Test
    void closingTheClientReleasesWhatIsHeld() throws InterruptedException {
        lockhouse.define(name, 9);
        try (Lockhouse other = server.client()) {
            other.semaphore(name).acquire(2);
            other.session("worker", Duration.ofSeconds(30)).request().permits(name, 3).acquire();
            assertEquals(5, inUse());
        }
        assertEquals(0, inUse());
    }

    @Test
    void errorsAreAHierarchyWithTheCodesOfTheServer() throws InterruptedException {
        lockhouse.define(name, 1);
        try (Permit held = lockhouse.request().permits(name, 1).externalId(name).acquire()) {
            assertEquals(name, held.externalId());
            Request full = lockhouse.request().permits(name, 1).atMost(Duration.ZERO);
            ExhaustedException error = assertThrows(ExhaustedException.class, full::acquire);
            assertEquals("exhausted", error.code());
            assertEquals(List.of(name), error.problem().get("semaphores"));
        }
        Request again = lockhouse.request().permits(name, 1).externalId(name);
        EndedException ended = assertThrows(EndedException.class, again::acquire);
        assertEquals(Optional.of("released"), ended.endReason());
    }

    @Test
    void pausesGrowUpToTwoSeconds() {
        for (int i = 0; i < 100; i++) {
            assertTrue(Caller.pauseMs(0) >= 50 && Caller.pauseMs(0) < 100);
            assertTrue(Caller.pauseMs(99) >= 1_000 && Caller.pauseMs(99) < 2_000);
        }
    }
}
