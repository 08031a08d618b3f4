package io.github.lockhouse;

import java.util.Map;

/** The base of all errors of this package. */
public class LockhouseException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String code;
    private final transient Map<String, Object> problem;
    private boolean maybeApplied;

    LockhouseException(String code, String detail, Map<String, Object> problem, Throwable cause) {
        super(code + ": " + detail, cause);
        this.code = code;
        this.problem = problem;
        this.maybeApplied = Boolean.TRUE.equals(problem.get("maybe_applied"));
    }

    /** The stable word to branch on; the server's, or {@code lost}. */
    public final String code() {
        return code;
    }

    /** The server's problem document, with members such as {@code semaphores}. */
    public final Map<String, Object> problem() {
        return problem == null ? Map.of() : problem;
    }

    /** Whether the call, or a try of it whose answer was lost, may have been done. */
    public final boolean maybeApplied() {
        return maybeApplied;
    }

    void setMaybeApplied(boolean maybeApplied) {
        this.maybeApplied = maybeApplied;
    }

    LockhouseException withMaybeApplied(boolean value) {
        maybeApplied = value;
        return this;
    }

    /** The error that a problem document describes. */
    static LockhouseException of(String code, Map<String, Object> problem) {
        String detail = String.valueOf(problem.getOrDefault("detail", ""));
        return switch (code) {
            case "exhausted" -> new ExhaustedException(code, detail, problem);
            case "request_ended", "session_ended" -> new EndedException(code, detail, problem);
            case "unauthenticated", "forbidden" -> new DeniedException(code, detail, problem);
            case "store_unavailable", "overloaded", "internal" ->
                new UnavailableException(code, detail, problem, null);
            default -> new RefusedException(code, detail, problem);
        };
    }
}
