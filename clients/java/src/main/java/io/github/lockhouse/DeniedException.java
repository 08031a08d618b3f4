package io.github.lockhouse;

import java.util.Map;

/** There is no valid token, or it lacks a grant. */
public final class DeniedException extends RefusedException {
    private static final long serialVersionUID = 1;

    DeniedException(String code, String detail, Map<String, Object> problem) {
        super(code, detail, problem);
    }
}
