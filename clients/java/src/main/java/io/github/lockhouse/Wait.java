package io.github.lockhouse;

import io.github.lockhouse.Caller.Asked;
import io.github.lockhouse.Caller.Call;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * A wait for room, in calls of at most 20 s.
 *
 * <p>Proxies end calls on which nothing moves, so a long wait takes several calls under one id. Each begins a second
 * before the last one ends, so the server has one of them in its line all the time, and nobody behind gets by in between.
 * The first answer other than "no room" counts. The other calls are then cancelled.
 */
final class Wait {
    private static final long LONGEST = TimeUnit.SECONDS.toNanos(20);
    private static final long OVERLAP = TimeUnit.SECONDS.toNanos(1);

    private final Caller caller;
    private final String path;
    private final Map<String, Object> body;
    private final long until;
    private final long timeout;

    private final CompletableFuture<Asked> answer = new CompletableFuture<>();
    private final List<Cancel> calls = new ArrayList<>();
    private int open;
    private Future<?> next;
    private boolean isOver;

    /** {@code until} and {@code timeout} in nanoseconds, the former by {@link Clock#now}. */
    Wait(Caller caller, String path, Map<String, Object> body, long until, long timeout) {
        this.caller = caller;
        this.path = path;
        this.body = body;
        this.until = until;
        this.timeout = timeout;
    }

    /** The grant. An interrupt ends the wait. One call is made on this thread, which spares the hand-over to another. */
    Asked granted() throws InterruptedException {
        long now = Clock.now();
        return until - now > LONGEST ? grantedUnlessCancelled() : caller.askHere(call(until), deadline(now, until));
    }

    /** The grant, unless {@link #cancel} ends the wait from another thread. */
    Asked grantedUnlessCancelled() throws InterruptedException {
        another();
        try {
            return answered();
        } finally {
            over();
        }
    }

    void cancel(RuntimeException why) {
        // The future is completed first: `over` cancels the calls under way, and each of them then fails too.
        answer.completeExceptionally(why);
        over();
    }

    private Asked answered() throws InterruptedException {
        try {
            return answer.get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof LockhouseException known) {
                known.addSuppressed(new Throwable("asked for here"));
                throw known;
            }
            throw new UnavailableException("internal", String.valueOf(error.getCause()), Map.of(), error);
        }
    }

    private synchronized void another() {
        if (isOver) {
            return;
        }
        long now = Clock.now();
        long end = planned(now);
        Cancel cancel = new Cancel();
        calls.add(cancel);
        open++;
        caller.ask(call(end), deadline(now, end), cancel).whenComplete(this::answered);
    }

    /** When a call that begins now ends, and plans the one after it. */
    private synchronized long planned(long now) {
        if (next != null) {
            next.cancel(false);
        }
        if (until - now <= LONGEST) {
            return until;
        }
        next = Clock.at(now + LONGEST - OVERLAP, this::another);
        return now + LONGEST;
    }

    private long deadline(long now, long end) {
        return (end - now > 0 ? end : now) + timeout;
    }

    private Call call(long end) {
        return new Call("PUT", path, () -> waiting(end), Map.of());
    }

    private Map<String, Object> waiting(long end) {
        Map<String, Object> all = new HashMap<>(body);
        all.put("wait_ms", Math.max(TimeUnit.NANOSECONDS.toMillis(end - Clock.now()), 0));
        return all;
    }

    private void answered(Asked asked, Throwable error) {
        Throwable cause = error instanceof CompletionException ? error.getCause() : error;
        boolean isFull = cause instanceof ExhaustedException;
        if (isFull || cause instanceof UnavailableException) {
            synchronized (this) {
                open--;
                if (open > 0) {
                    return;
                }
            }
            if (isFull && until - Clock.now() > 0) {
                another();
                return;
            }
        }
        // The future is completed first: `over` cancels the other calls, and each of them then fails too.
        if (cause == null) {
            answer.complete(asked);
        } else {
            answer.completeExceptionally(cause);
        }
        over();
    }

    private synchronized void over() {
        isOver = true;
        if (next != null) {
            next.cancel(false);
        }
        calls.forEach(Cancel::cancel);
    }
}
