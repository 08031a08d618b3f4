package io.github.lockhouse;

import java.time.Instant;
import java.util.Optional;

/**
 * The state of a semaphore when the server answered: {@code inUse} permits are held, {@code available} ones are free, and
 * {@code waiting} calls wait. {@code fence} is the highest so far. {@code slots} says whether its permits have slots. {@code
 * template} is the pattern of the template that created it.
 */
public record SemaphoreStatus(
        String name,
        int capacity,
        int inUse,
        int available,
        int waiting,
        long fence,
        boolean slots,
        Optional<String> template,
        Instant createdAt,
        Instant updatedAt) {
    static SemaphoreStatus of(Object json) {
        Wire wire = Wire.of(json);
        return new SemaphoreStatus(
                wire.text("name"),
                wire.count("capacity"),
                wire.count("in_use"),
                wire.count("available"),
                wire.count("waiting"),
                wire.number("fence"),
                wire.is("slots"),
                wire.maybeText("template"),
                wire.time("created_at"),
                wire.time("updated_at"));
    }
}
