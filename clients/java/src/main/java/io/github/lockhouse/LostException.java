package io.github.lockhouse;

import java.util.Map;

/** A hold was lost before it was released: somebody else may hold the permits now. */
public final class LostException extends LockhouseException {
    private static final long serialVersionUID = 1;

    private final String what;
    private final String reason;

    LostException(String what, String reason) {
        super("lost", "the hold of " + what + " was lost: " + reason, Map.of(), null);
        this.what = what;
        this.reason = reason;
    }

    /**
     * Another one, to throw. Of a {@code try} with resources both the block and the end may throw, and Java refuses to add an
     * exception to itself as suppressed.
     */
    LostException another() {
        return new LostException(what, reason);
    }

    /**
     * {@code not_renewed} (no renewal got through in time), {@code unknown} (the server does not know it), or the
     * server's end reason: {@code released}, {@code expired}, {@code owner_dead}, {@code stale}, {@code forced}.
     */
    public String reason() {
        return reason;
    }
}
