package io.github.lockhouse;

import java.time.Instant;
import java.util.Optional;

/** An entry of a semaphore's history. */
public record CapacityChange(
        int oldCapacity, int newCapacity, Optional<String> changedBy, Optional<String> note, Instant changedAt) {
    static CapacityChange of(Object json) {
        Wire wire = Wire.of(json);
        return new CapacityChange(
                wire.count("old_capacity"),
                wire.count("new_capacity"),
                wire.maybeText("changed_by"),
                wire.maybeText("note"),
                wire.time("changed_at"));
    }
}
