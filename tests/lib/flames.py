# SPDX-License-Identifier: GPL-2.0-or-later
"""The data of a page that backtrail flamegraph has written."""

import json
import re


def stacks(page):
    """(names, branches, ns) of each stack, names from the process on, and what
    it has without its callees, and after these the same of the trace before;
    none of a page that was not written"""
    found = re.search(r'<script type="application/json" id="data">(.*?)'
                      r'</script>', page, re.S)
    if not found:
        return
    data = json.loads(found[1])
    values = iter(data['frames'])

    def take(above):
        name, _ = next(values), next(values)
        numbers = [next(values) for _ in range(4 if 'before' in data else 2)]
        n = next(values)
        names = (*above, data['names'][name])
        yield names[1:], *numbers
        for _ in range(n):
            yield from take(names)

    yield from take(())
