package io.github.lockhouse;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;

/** An object of JSON, read by its members' names. */
record Wire(Map<String, Object> members) {
    @SuppressWarnings("unchecked")
    static Wire of(Object value) {
        if (value instanceof Map<?, ?> members) {
            return new Wire((Map<String, Object>) members);
        }
        throw new IllegalArgumentException("an object was expected");
    }

    /** {@code null} if there is none. */
    String text(String name) {
        return (String) members.get(name);
    }

    Optional<String> maybeText(String name) {
        return Optional.ofNullable(text(name));
    }

    long number(String name) {
        return ((Number) members.get(name)).longValue();
    }

    int count(String name) {
        return Math.toIntExact(number(name));
    }

    boolean is(String name) {
        return Boolean.TRUE.equals(members.get(name));
    }

    Optional<Duration> duration(String name) {
        return Optional.ofNullable((Number) members.get(name)).map(it -> Duration.ofMillis(it.longValue()));
    }

    Instant time(String name) {
        return Instant.parse(text(name));
    }

    Optional<Instant> maybeTime(String name) {
        return maybeText(name).map(Instant::parse);
    }

    /** Empty if there is none. */
    <T> List<T> list(String name, Function<Object, T> of) {
        List<?> items = members.get(name) instanceof List<?> list ? list : List.of();
        return items.stream().map(item -> of.apply(item)).toList();
    }
}
