package io.github.lockhouse;

import java.util.Map;

/** The server refused the call; the same call again is refused again. */
public class RefusedException extends LockhouseException {
    private static final long serialVersionUID = 1;

    RefusedException(String code, String detail, Map<String, Object> problem) {
        super(code, detail, problem, null);
    }
}
