package io.github.lockhouse;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/** A granted request. {@code state} is {@code acquired}, then {@code released}. */
public record RequestStatus(
        String externalId,
        String state,
        Optional<String> endReason,
        Optional<String> endedBy,
        Optional<String> owner,
        List<HeldPermit> permits,
        Optional<Duration> ttl,
        Optional<Instant> expiresAt,
        Instant createdAt,
        Optional<Instant> releasedAt) {
    static RequestStatus of(Object json) {
        Wire wire = Wire.of(json);
        return new RequestStatus(
                wire.text("external_id"),
                wire.text("state"),
                wire.maybeText("end_reason"),
                wire.maybeText("ended_by"),
                wire.maybeText("owner"),
                wire.list("permits", HeldPermit::of),
                wire.duration("ttl_ms"),
                wire.maybeTime("expires_at"),
                wire.time("created_at"),
                wire.maybeTime("released_at"));
    }
}
