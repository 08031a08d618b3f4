package io.github.lockhouse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @ParameterizedTest
    @ValueSource(strings = {
        "null", "true", "-12", "1.5", "\"a\"", "[]", "{}", "[1,[2,\"x\"]]", "{\"a\":{\"b\":[false]}}",
        "\"é ü 漢\"", "\"\\u0000\\u001f\"", "\"\\\"\\\\/\"", "9223372036854775", "\"\\ud83d\\ude00\"",
    })
    void whatIsReadIsWrittenAgain(String text) {
        assertEquals(text, Json.write(Json.parse(text)));
    }

    @Test
    void spaceAndEscapesAreRead() {
        Object read = Json.parse(" { \"a\\n\\u00e9\" : [ 1 , 2e3 ] , \"b\" : null } ");
        assertEquals(List.of(1L, 2000.0), ((Map<?, ?>) read).get("a\né"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "<html>", "[1", "[1 2]", "{\"a\"}", "\"a", "\"\\u12", "tru", "1 2", "--", "{,}", "[,1]"})
    void whatIsNoJsonIsRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.parse(text));
    }

    @Test
    void whatIsTooDeepIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> Json.parse("[".repeat(100_000)));
    }
}
