package io.github.lockhouse;

import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;

/** Ends a call under way: hangs up, or ends the pause before its next try. */
final class Cancel {
    private Future<?> underWay;
    private Throwable why;

    synchronized void cancel(Throwable reason) {
        if (why != null) {
            return;
        }
        why = reason;
        if (underWay != null) {
            underWay.cancel(true);
        }
    }

    synchronized void cancel() {
        cancel(new CancellationException("the call was cancelled"));
    }

    /** Why it was cancelled; null if it was not. */
    synchronized Throwable why() {
        return why;
    }

    /** From now on, {@code cancel} cancels {@code future}. */
    synchronized <T extends Future<?>> T watch(T future) {
        underWay = future;
        if (why != null) {
            future.cancel(true);
        }
        return future;
    }

    <T> CompletableFuture<T> failed() {
        return CompletableFuture.failedFuture(why());
    }
}
