package io.github.lockhouse;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** The permits, sessions and pending releases of one client: ended when the client is closed, or the process exits. */
final class Opened {
    private static final Duration EXIT = Duration.ofSeconds(5);

    /** Those of all clients that are not empty, so that they are ended although the program dropped them. */
    private static final Set<Opened> ALL = new LinkedHashSet<>();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(Opened::exit, "lockhouse-exit"));
    }

    private final Set<AutoCloseable> open = new LinkedHashSet<>();
    private final Set<Thread> background = new LinkedHashSet<>();

    /** Work that may be ended by an interrupt. */
    interface Work {
        void run() throws InterruptedException;
    }

    synchronized void add(AutoCloseable it) {
        open.add(it);
        changed();
    }

    synchronized void remove(AutoCloseable it) {
        open.remove(it);
        changed();
    }

    private void changed() {
        boolean isEmpty = open.isEmpty() && background.isEmpty();
        synchronized (ALL) {
            if (isEmpty) {
                ALL.remove(this);
            } else {
                ALL.add(this);
            }
        }
    }

    /** Runs {@code work} on a background thread, which {@link #close} waits for. */
    synchronized void run(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (InterruptedException error) {
                // Nothing waits for it any more; the time to live covers the rest.
                Thread.currentThread().interrupt();
            } finally {
                ended(Thread.currentThread());
            }
        }, "lockhouse-release");
        thread.setDaemon(true);
        background.add(thread);
        changed();
        thread.start();
    }

    private synchronized void ended(Thread thread) {
        background.remove(thread);
        changed();
    }

    /** Ends all that is open, side by side, and waits for it at most so long. */
    void close(Duration atMost) {
        List<AutoCloseable> all;
        synchronized (this) {
            all = new ArrayList<>(open);
        }
        all.forEach(it -> run(() -> end(it)));
        List<Thread> threads;
        synchronized (this) {
            threads = new ArrayList<>(background);
        }
        long deadline = Clock.in(atMost);
        try {
            for (Thread thread : threads) {
                thread.join(Math.max((deadline - Clock.now()) / 1_000_000, 1));
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static void end(AutoCloseable it) throws InterruptedException {
        try {
            it.close();
        } catch (InterruptedException error) {
            throw error;
        } catch (Exception error) {
            // A hold that was lost has ended; one that can't be released ends with its time to live.
            return;
        }
    }

    private static void exit() {
        List<Opened> all;
        synchronized (ALL) {
            all = new ArrayList<>(ALL);
        }
        all.forEach(it -> it.close(EXIT));
    }
}
