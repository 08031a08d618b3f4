package io.github.lockhouse;

import java.util.List;

/** The permits of a request on one semaphore; without slots if it is not slotted. */
public record HeldPermit(String semaphore, int count, long fence, List<Integer> slots) {
    static HeldPermit of(Object json) {
        Wire wire = Wire.of(json);
        List<Integer> slots = wire.list("slots", slot -> ((Number) slot).intValue());
        return new HeldPermit(wire.text("semaphore"), wire.count("count"), wire.number("fence"), slots);
    }
}
