package io.github.lockhouse;

import java.util.Map;
import java.util.Optional;

/** The request or the session has ended. */
public final class EndedException extends RefusedException {
    private static final long serialVersionUID = 1;

    EndedException(String code, String detail, Map<String, Object> problem) {
        super(code, detail, problem);
    }

    /** Why the request ended, if the server said so. */
    public Optional<String> endReason() {
        return Optional.ofNullable((String) problem().get("end_reason"));
    }
}
