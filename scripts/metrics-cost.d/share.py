"""Prints the shares of the metrics and of the spans: share.py INCLUSIVE EXCLUSIVE, two lists of callgrind_annotate."""

import re
import sys

LIMIT = 0.03

# The library's functions that count, with all that they call; and the server's own that call them, by themselves.
COUNTS = re.compile(r"Family<S,M,C>::get_or_create$|Histogram::observe$")
OWN = re.compile(r"lockhouse_server::(store_)?metrics::")
SPANS = re.compile(r"^lockhouse_server::(traced::(span|answered)|store_metrics::span)$")


def functions(path: str) -> tuple[int, list[tuple[int, str]]]:
    """All instructions, and those of each function."""
    with open(path, encoding="utf-8") as lines:
        text = lines.read()
    total = re.search(r"^\s*([\d,]+) .*PROGRAM TOTALS", text, re.MULTILINE)
    found = re.findall(r"^\s*([\d,]+) \(\s*[\d.]+%\)\s+\S*?:(.*) \[", text, re.MULTILINE)
    if total is None:
        sys.exit(f"{path} has no total")
    number = lambda digits: int(digits.replace(",", ""))  # noqa: E731
    return number(total[1]), [(number(count), name) for count, name in found]


total, inclusive = functions(sys.argv[1])
_, exclusive = functions(sys.argv[2])
counting = sum(count for count, name in inclusive if COUNTS.search(name))
if counting == 0:
    sys.exit("no function that counts was found; have their names changed?")
own = sum(count for count, name in exclusive if OWN.search(name))
spans = sum(count for count, name in inclusive if SPANS.search(name))
share = (counting + own) / total
print(f"{total} instructions: metrics {share:.2%}, at most {LIMIT:.0%}; spans that nobody collects {spans / total:.2%}")
sys.exit(share > LIMIT)
