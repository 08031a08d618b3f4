package io.github.lockhouse;

import io.github.lockhouse.Caller.Call;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * A hold, renewed about every third of its time to live until it is stopped or lost.
 *
 * <p>It counts as lost a tenth of the time to live before the server could end it, by the monotonic clock, from when the
 * last successful call was sent. Every look compares with that clock, so a process that was stopped finds it lost at once.
 * A lost hold stays lost, and a hold that is stopped is never lost after that. A renewal that is not answered soon gets another
 * beside it, as a dead connection may hang.
 */
final class Hold {
    private static final long RENEWAL = TimeUnit.SECONDS.toNanos(10);
    private static final long SOON_AGAIN = TimeUnit.SECONDS.toNanos(1);

    private final String what;
    private final Caller caller;
    private final Call call;
    private final long ttl;
    private final Hold session;
    private final Consumer<LostException> sessionLost = why -> lose(why.reason());

    private final Set<Consumer<LostException>> told = new LinkedHashSet<>();
    private long until;
    private long next;
    private LostException lost;
    private boolean isStopped;
    private Future<?> alarm;

    /** A hold that lasts as long as its session; if that is null, nothing ends it. */
    Hold(String what, Hold session) {
        this.what = what;
        this.caller = null;
        this.call = null;
        this.ttl = 0;
        this.session = session;
        if (session != null) {
            session.onLost(sessionLost);
        }
    }

    /** A hold that {@code call} renews, and that was asked for at {@code sentAt}. */
    Hold(String what, Caller caller, Call call, Duration ttl, long sentAt) {
        this.what = what;
        this.caller = caller;
        this.call = call;
        this.ttl = Clock.nanos(ttl);
        this.session = null;
        this.until = giveUpAt(sentAt);
        this.next = sentAt + soon();
        plan();
    }

    /** Why it is lost, by the clock at this call; null if it is not. */
    LostException lost() {
        LostException ofSession = session == null ? null : session.lost();
        String reason;
        synchronized (this) {
            boolean isOver = ttl != 0 && Clock.now() - until >= 0;
            if (lost != null || isStopped || (ofSession == null && !isOver)) {
                return lost;
            }
            reason = isOver ? "not_renewed" : ofSession.reason();
        }
        lose(reason);
        return lost();
    }

    /** Calls {@code callback} when it is lost; at once if it is. */
    void onLost(Consumer<LostException> callback) {
        LostException why = lost();
        synchronized (this) {
            if (lost == null) {
                if (!isStopped) {
                    told.add(callback);
                }
                return;
            }
            why = lost;
        }
        tell(callback, why);
    }

    synchronized void forget(Consumer<LostException> callback) {
        told.remove(callback);
    }

    /** How long its time to live lasts, or that of its session, in nanoseconds; 0 if nothing ends it. */
    long ttl() {
        return session == null ? ttl : session.ttl();
    }

    /** Renews it no more. It is not lost from now on, unless it was lost before. */
    void stop() {
        lost();
        stopped();
    }

    private void stopped() {
        synchronized (this) {
            isStopped = true;
            told.clear();
            if (alarm != null) {
                alarm.cancel(false);
            }
        }
        if (session != null) {
            session.forget(sessionLost);
        }
    }

    void lose(String reason) {
        Set<Consumer<LostException>> all;
        synchronized (this) {
            if (lost != null || isStopped) {
                return;
            }
            lost = new LostException(what, reason);
            all = new LinkedHashSet<>(told);
        }
        stopped();
        all.forEach(callback -> tell(callback, lost));
    }

    /** Not on the thread that keeps time, as callbacks may block. */
    private static void tell(Consumer<LostException> callback, LostException why) {
        Thread thread = new Thread(() -> callback.accept(why), "lockhouse-lost");
        thread.setDaemon(true);
        thread.start();
    }

    private long giveUpAt(long sentAt) {
        return sentAt + ttl - ttl / 10;
    }

    /** Up to a fifth sooner, so that holds that began together do not go on in step. */
    private long soon() {
        return (long) (ttl / 3 * (1 - ThreadLocalRandom.current().nextDouble() / 5));
    }

    private synchronized void plan() {
        if (isStopped) {
            return;
        }
        if (alarm != null) {
            alarm.cancel(false);
        }
        alarm = Clock.at(next - until < 0 ? next : until, this::tick);
    }

    private void tick() {
        if (lost() != null) {
            return;
        }
        boolean isDue;
        synchronized (this) {
            long now = Clock.now();
            isDue = !isStopped && now - next >= 0;
            if (isDue) {
                next = now + ttl / 4;
            }
        }
        try {
            if (isDue) {
                long sentAt = Clock.now();
                CompletableFuture<String> renewed = caller.renew(call, sentAt + RENEWAL);
                renewed.whenComplete((reason, error) -> renewed(sentAt, reason, error));
            }
        } finally {
            // Whatever went wrong: without a next time, the loss would be told to nobody.
            plan();
        }
    }

    private void renewed(long sentAt, String reason, Throwable error) {
        synchronized (this) {
            if (isStopped) {
                return;
            }
            long now = Clock.now();
            if (error != null) {
                long again = now + Math.min(ttl / 12, SOON_AGAIN);
                next = next - again < 0 ? next : again;
            } else if (reason == null && now - until < 0) {
                long later = giveUpAt(sentAt);
                until = later - until > 0 ? later : until;
                next = sentAt + soon();
            }
        }
        if (reason != null) {
            lose(reason);
        } else {
            plan();
        }
    }
}
