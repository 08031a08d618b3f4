package io.github.lockhouse;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Permits that this program holds, on one or more semaphores. The client renews them in the background until they are
 * released. Safe for many threads.
 *
 * <p>In a {@code try} with resources, leaving the block releases, and throws {@link LostException} if the hold was lost
 * meanwhile. A permit that is still held when the process exits is released.
 */
public final class Permit implements AutoCloseable {
    private final Lockhouse lockhouse;
    private final RequestStatus request;
    private final Hold hold;
    private final Release release;
    private final AtomicBoolean isOpen = new AtomicBoolean(true);

    Permit(Lockhouse lockhouse, RequestStatus request, Hold hold, Release release) {
        this.lockhouse = lockhouse;
        this.request = request;
        this.hold = hold;
        this.release = release;
        lockhouse.opened(this);
    }

    /** The request as it was granted. */
    public RequestStatus request() {
        return request;
    }

    /** The id of the request: the caller's, or the one that was made for it. */
    public String externalId() {
        return request.externalId();
    }

    /** The fence of a request for one semaphore: a number that rises with every grant on it. */
    public long fence() {
        return only().fence();
    }

    /** The fence on a semaphore: a number that rises with every grant on it. */
    public long fence(String semaphore) {
        return of(semaphore).fence();
    }

    /** The slots of a request for one semaphore: indexes that no other live permit has. Empty if it is not slotted. */
    public List<Integer> slots() {
        return only().slots();
    }

    /** The slots on a semaphore: indexes that no other live permit has. Empty if it is not slotted. */
    public List<Integer> slots(String semaphore) {
        return of(semaphore).slots();
    }

    /** Whether the hold is lost, by the clock at this call. Once true, it stays so; once released, a permit is never lost. */
    public boolean isLost() {
        return hold.lost() != null;
    }

    /** Why the hold is lost, if it is. */
    public Optional<LostException> lost() {
        return Optional.ofNullable(hold.lost());
    }

    /** Throws {@link LostException} if the hold is lost: call it before each step that can't be undone. */
    public void throwIfLost() {
        LostException lost = hold.lost();
        if (lost != null) {
            throw lost.another();
        }
    }

    /**
     * Calls {@code callback} on a background thread when the hold is lost; at once if it already is. It is lost when nine tenths of
     * the time to live have passed since the last successful renewal was sent. The server can grant the permits to another
     * only after the whole time to live. A permit that was released calls nothing.
     */
    public void onLost(Consumer<LostException> callback) {
        hold.onLost(callback);
    }

    /**
     * Gives the permits back. Returns whether they were held until now: false if the hold had ended before. A second release
     * does nothing and returns false. Unlike {@link #close}, it does not throw {@link LostException}.
     *
     * @throws UnavailableException if the server does not answer; it is then tried again in the background
     */
    public boolean release() {
        if (!isOpen.compareAndSet(true, false)) {
            return false;
        }
        lockhouse.closed(this);
        hold.stop();
        try {
            return release.now();
        } catch (UnavailableException error) {
            release.inBackground(hold.ttl(), false);
            throw error;
        } catch (RefusedException error) {
            if (error.code().equals("unknown_request")) {
                return false;
            }
            throw error;
        }
    }

    /**
     * Releases. If the server does not answer, the release goes on in the background, and this does not throw.
     *
     * @throws LostException if the hold was lost before
     */
    @Override
    public void close() {
        if (!isOpen.get()) {
            return;
        }
        LostException lost = hold.lost();
        boolean wasHeld;
        try {
            wasHeld = release();
        } catch (UnavailableException error) {
            // The work is done under the permit, and the release goes on in the background.
            wasHeld = true;
        } catch (RefusedException error) {
            if (lost == null) {
                throw error;
            }
            wasHeld = false;
        }
        if (lost != null) {
            throw lost.another();
        }
        if (!wasHeld) {
            throw new LostException("request " + externalId(), "released");
        }
    }

    private HeldPermit only() {
        if (request.permits().size() == 1) {
            return request.permits().get(0);
        }
        throw new IllegalArgumentException("the request is for several semaphores; name one");
    }

    private HeldPermit of(String semaphore) {
        for (HeldPermit permit : request.permits()) {
            if (permit.semaphore().equals(semaphore)) {
                return permit;
            }
        }
        throw new IllegalArgumentException("the request is not for semaphore " + semaphore);
    }
}
