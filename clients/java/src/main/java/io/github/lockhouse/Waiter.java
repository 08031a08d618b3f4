package io.github.lockhouse;

import java.time.Instant;
import java.util.Optional;

/** A call that waits for a semaphore. */
public record Waiter(String externalId, Optional<String> owner, int count, int priority, Instant since) {
    static Waiter of(Object json) {
        Wire wire = Wire.of(json);
        return new Waiter(
                wire.text("external_id"),
                wire.maybeText("owner"),
                wire.count("count"),
                wire.count("priority"),
                wire.time("since"));
    }
}
