package io.github.lockhouse;

import java.time.Duration;
import java.util.Optional;

/** A rule that creates semaphores on first use: {@code customer/*} has capacity 2. */
public record Template(String pattern, int capacity, Optional<Duration> idle) {
    static Template of(Object json) {
        Wire wire = Wire.of(json);
        return new Template(wire.text("pattern"), wire.count("capacity"), wire.duration("idle_ms"));
    }
}
