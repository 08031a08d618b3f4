package io.github.lockhouse;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Keeps all that is acquired through it by one heartbeat, however much that is. Its permits are lost when it is. A request
 * that is ended alone, by force, is not told.
 *
 * <p>In a {@code try} with resources, leaving the block says goodbye, which releases everything.
 */
public final class Session implements AutoCloseable {
    private final Lockhouse lockhouse;
    private final String owner;
    private final Hold hold;
    private final AtomicBoolean isOpen = new AtomicBoolean(true);

    Session(Lockhouse lockhouse, String owner, Hold hold) {
        this.lockhouse = lockhouse;
        this.owner = owner;
        this.hold = hold;
        lockhouse.opened(this);
    }

    /** An ask for permits that this session keeps: the owner's, without a time to live. */
    public Request request() {
        return new Request(lockhouse, hold, owner);
    }

    /** Whether the session is lost, and with it all that it keeps. */
    public boolean isLost() {
        return hold.lost() != null;
    }

    /** Calls {@code callback} on a thread of its own when the session is lost, and at its goodbye. */
    public void onLost(Consumer<LostException> callback) {
        hold.onLost(callback);
    }

    /** Releases all that the owner holds, and ends the session; how many requests those were. */
    public long goodbye() {
        if (!isOpen.compareAndSet(true, false)) {
            return 0;
        }
        lockhouse.closed(this);
        hold.lose("released");
        return lockhouse.goodbye(owner);
    }

    /**
     * Says goodbye.
     *
     * @throws LostException if the session was lost before
     */
    @Override
    public void close() {
        LostException lost = hold.lost();
        if (lost == null || !isOpen.compareAndSet(true, false)) {
            goodbye();
            return;
        }
        // Its silence has freed what it held, and the name may be another session's now.
        lockhouse.closed(this);
        throw lost;
    }
}
