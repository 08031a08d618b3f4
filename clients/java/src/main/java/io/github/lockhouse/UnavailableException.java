package io.github.lockhouse;

import java.util.Map;

/** There was no answer in time. The call may have been done; the same call with the same id is safe. */
public final class UnavailableException extends LockhouseException {
    private static final long serialVersionUID = 1;

    UnavailableException(String code, String detail, Map<String, Object> problem, Throwable cause) {
        super(code, detail, problem, cause);
    }
}
