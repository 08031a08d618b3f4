package io.github.lockhouse;

import io.github.lockhouse.Caller.Asked;
import io.github.lockhouse.Caller.Call;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * A wait for room, in calls of at most 20 s.
 *
 * <p>Proxies end calls on which nothing moves, so a long wait takes several calls under one id. Each begins a second
 * before the last one ends, so the server has one of them in its line all the time, and nobody behind gets by in between.
 * The first answer but "no room" counts; what still waits then is hung up on.
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

    CompletableFuture<Asked> begin() {
        another();
        return answer;
    }

    /** Leaves the line. */
    void cancel(Throwable why) {
        over();
        answer.completeExceptionally(why);
    }

    private synchronized void another() {
        if (isOver) {
            return;
        }
        long now = Clock.now();
        long end = until - now <= LONGEST ? until : now + LONGEST;
        if (next != null) {
            next.cancel(false);
        }
        next = end == until ? null : Clock.at(now + LONGEST - OVERLAP, this::another);
        Cancel cancel = new Cancel();
        calls.add(cancel);
        open++;
        Call call = new Call("PUT", path, () -> waiting(end), Map.of());
        long deadline = (end - now > 0 ? end : now) + timeout;
        caller.ask(call, deadline, cancel).whenComplete(this::answered);
    }

    private Map<String, Object> waiting(long end) {
        Map<String, Object> all = new HashMap<>(body);
        all.put("wait_ms", Math.max(TimeUnit.NANOSECONDS.toMillis(end - Clock.now()), 0));
        return all;
    }

    private void answered(Asked asked, Throwable error) {
        Throwable cause = error instanceof CompletionException ? error.getCause() : error;
        if (cause instanceof ExhaustedException) {
            synchronized (this) {
                open--;
                if (open > 0) {
                    return;
                }
            }
            if (until - Clock.now() > 0) {
                another();
                return;
            }
        }
        over();
        if (cause == null) {
            answer.complete(asked);
        } else {
            answer.completeExceptionally(cause);
        }
    }

    private synchronized void over() {
        isOver = true;
        if (next != null) {
            next.cancel(false);
        }
        calls.forEach(Cancel::cancel);
    }
}
