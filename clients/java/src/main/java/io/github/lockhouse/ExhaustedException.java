package io.github.lockhouse;

import java.util.Map;

/** There was no room, or none within the wait. */
public final class ExhaustedException extends RefusedException {
    private static final long serialVersionUID = 1;

    ExhaustedException(String code, String detail, Map<String, Object> problem) {
        super(code, detail, problem);
    }
}
