package io.github.lockhouse;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Keeps all that is acquired through it by one heartbeat, however much that is. The permits are lost when the session is. A
 * permit does not learn that its request alone was ended, by force.
 *
 * <p>In a {@code try} with resources, leaving the block says goodbye, which releases everything that the owner holds.
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

    /** A request for permits that this session keeps. It has the session's owner and no time to live. */
    public Request request() {
        return new Request(lockhouse, hold, owner);
    }

    /** Whether the session is lost, and with it all that it keeps. */
    public boolean isLost() {
        return hold.lost() != null;
    }

    /** Calls {@code callback} on a background thread when the session is lost, and at its goodbye. */
    public void onLost(Consumer<LostException> callback) {
        hold.onLost(callback);
    }

    /** Releases all that the owner holds, and ends the session. Returns how many requests it released. */
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
        throw lost.another();
    }
}
