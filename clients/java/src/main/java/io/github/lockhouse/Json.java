package io.github.lockhouse;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON as maps, lists, strings, longs, doubles, booleans and null. */
final class Json {
    private static final int DEEPEST = 64;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /** Reads one value; {@code IllegalArgumentException} if that is not all there is. */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at < text.length()) {
            throw json.unexpected();
        }
        return value;
    }

    static String write(Object value) {
        StringBuilder text = new StringBuilder();
        write(value, text);
        return text.toString();
    }

    private static void write(Object value, StringBuilder text) {
        if (value instanceof Map<?, ?> members) {
            String before = "{";
            for (Map.Entry<?, ?> member : members.entrySet()) {
                text.append(before);
                writeString(member.getKey().toString(), text);
                text.append(':');
                write(member.getValue(), text);
                before = ",";
            }
            text.append(members.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> items) {
            String before = "[";
            for (Object item : items) {
                text.append(before);
                write(item, text);
                before = ",";
            }
            text.append(items.isEmpty() ? "[]" : "]");
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else {
            writeString(value.toString(), text);
        }
    }

    private static void writeString(String value, StringBuilder text) {
        text.append('"');
        for (int i = 0; i < value.length(); i++) {
            char it = value.charAt(i);
            if (it == '"' || it == '\\') {
                text.append('\\').append(it);
            } else if (it < ' ' || Character.isSurrogate(it)) {
                text.append(String.format("\\u%04x", (int) it));
            } else {
                text.append(it);
            }
        }
        text.append('"');
    }

    private Object value() {
        space();
        return switch (peek()) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        enter('{');
        while (more('}', members.isEmpty())) {
            String name = string();
            space();
            expect(':');
            members.put(name, value());
        }
        return members;
    }

    private List<Object> array() {
        List<Object> items = new ArrayList<>();
        enter('[');
        while (more(']', items.isEmpty())) {
            items.add(value());
        }
        return items;
    }

    private void enter(char open) {
        if (++depth > DEEPEST) {
            throw unexpected();
        }
        expect(open);
    }

    /** Whether another item comes before the end. */
    private boolean more(char close, boolean isFirst) {
        space();
        if (peek() == close) {
            at++;
            depth--;
            return false;
        }
        if (!isFirst) {
            expect(',');
            space();
        }
        return true;
    }

    private String string() {
        expect('"');
        StringBuilder value = new StringBuilder();
        for (char it = next(); it != '"'; it = next()) {
            value.append(it == '\\' ? escaped() : it);
        }
        return value.toString();
    }

    private char escaped() {
        char it = next();
        return switch (it) {
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> {
                if (at + 4 > text.length()) {
                    throw unexpected();
                }
                at += 4;
                yield (char) Integer.parseInt(text.substring(at - 4, at), 16);
            }
            default -> it;
        };
    }

    private Object number() {
        int from = at;
        while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(from, at);
        if (digits.isEmpty()) {
            throw unexpected();
        }
        if (digits.matches("-?\\d{1,18}")) {
            return Long.valueOf(digits);
        }
        return Double.valueOf(digits);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw unexpected();
        }
        at += word.length();
        return value;
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char peek() {
        return at < text.length() ? text.charAt(at) : 0;
    }

    private char next() {
        if (at >= text.length()) {
            throw unexpected();
        }
        return text.charAt(at++);
    }

    private void expect(char what) {
        if (next() != what) {
            throw unexpected();
        }
    }

    private IllegalArgumentException unexpected() {
        return new IllegalArgumentException("no JSON at character " + at);
    }
}
