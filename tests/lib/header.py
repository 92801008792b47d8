# SPDX-License-Identifier: GPL-2.0-or-later
"""What include/backtrail/trace.h declares."""

import os
import re

PATH = os.path.join(os.path.dirname(__file__), '..', '..', 'include',
                    'backtrail', 'trace.h')


def declarations():
    """Each declaration without comments and directives, on one line."""
    with open(PATH, encoding='ascii') as f:
        text = f.read()
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S)
    text = re.sub(r'^#([^\n]*\\\n)*[^\n]*\n', '', text, flags=re.M)
    text = text.replace('extern "C" {', '')
    # A struct or enum with its braces has no semicolon but the last.
    text = re.sub(r'\{[^{}]*\}', '{}', text)
    return [' '.join(d.split()) for d in text.split(';')]


def functions():
    """{name: declaration} of all functions, of the API or not."""
    found = {}
    for d in declarations():
        m = re.search(r'\b(\w+) ?\(', re.sub(r'__attribute__\(\(.*?\)\)', '',
                                             d))
        if m and not d.startswith(
                ('typedef', 'static', 'BTRAIL_STATIC_ASSERT')):
            found[m[1]] = d
    return found
