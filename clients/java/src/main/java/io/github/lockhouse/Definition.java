package io.github.lockhouse;

import java.util.HashMap;
import java.util.Map;

/** How {@link Lockhouse#define} creates or changes a semaphore. A member that is null is not sent. */
public record Definition(int capacity, boolean slots, String note, String changedBy, Integer expectedCapacity) {
    /** A semaphore of this capacity. */
    public static Definition of(int capacity) {
        return new Definition(capacity, false, null, null, null);
    }

    /** Every permit has a slot: a number from 0 that no other live permit has. */
    public Definition withSlots() {
        return new Definition(capacity, true, note, changedBy, expectedCapacity);
    }

    /** The reason, for the history. */
    public Definition withNote(String why) {
        return new Definition(capacity, slots, why, changedBy, expectedCapacity);
    }

    /** The name of the caller, for the history. */
    public Definition withChangedBy(String who) {
        return new Definition(capacity, slots, note, who, expectedCapacity);
    }

    /** The capacity that the semaphore must have now; otherwise the call fails with {@code capacity_changed}. */
    public Definition withExpectedCapacity(int expected) {
        return new Definition(capacity, slots, note, changedBy, expected);
    }

    Map<String, Object> body() {
        Map<String, Object> body = new HashMap<>();
        body.put("capacity", capacity);
        if (slots) {
            body.put("slots", true);
        }
        body.put("note", note);
        body.put("changed_by", changedBy);
        body.put("expected_capacity", expectedCapacity);
        body.values().removeIf(value -> value == null);
        return body;
    }
}
