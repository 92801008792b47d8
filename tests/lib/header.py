# SPDX-License-Identifier: GPL-2.0-or-later
"""What the headers of libbacktrail declare."""

import glob
import os
import re

PATH = os.path.join(os.path.dirname(__file__), '..', '..', 'include',
                    'backtrail', 'trace.h')
TRANSPORT = os.path.join(os.path.dirname(PATH), 'transport.h')


def read(path=None):
    """One header, or all with calls of libbacktrail"""
    if path is None:
        return ''.join(read(p) for p in sorted(
            glob.glob(os.path.join(os.path.dirname(PATH), '*.h')))
                       if p != TRANSPORT)
    with open(path, encoding='ascii') as f:
        return f.read()


def strip(text):
    """Without comments and directives"""
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S)
    text = re.sub(r'^#ifdef __cplusplus\n(extern "C" \{|\})\n#endif$', '', text,
                  flags=re.M)
    text = re.sub(r'^#([^\n]*\\\n)*[^\n]*\n', '', text, flags=re.M)
    return text


def functions():
    """{name: declaration} of all functions, of the API or not."""
    # A struct or enum with its braces has no semicolon but the last.
    text = re.sub(r'\{[^{}]*\}', '{}', strip(read()))
    found = {}
    for d in text.split(';'):
        d = ' '.join(d.split())
        m = re.search(r'\b(\w+) ?\(', d)
        if m and not d.startswith(
                ('typedef', 'static', 'BTRAIL_STATIC_ASSERT')):
            found[m[1]] = d
    return found


def comments():
    """{name: comment} of all functions, paragraphs with a blank line between

    Without the stars.
    """
    found = {}
    for name, text in re.findall(
            r'^/\*\*\n \* (\w+)((?:(?!\*/).)*)\*/\nBTRAIL_API', read(),
            re.M | re.S):
        text = re.sub(r'^ \* ?', '', text, flags=re.M)
        found[name] = text
    return found


def both():
    return read() + read(TRANSPORT)


def structs():
    """{name: members} of all structs"""
    return dict(re.findall(r'^struct (\w+) \{(.*?)^\};', strip(both()),
                           re.M | re.S))


def constants():
    """Names of all macros and members of enums"""
    text = both()
    return set(re.findall(r'^#define (\w+)', text, re.M)) | set(
        re.findall(r'^    (BTRAIL_\w+) = ', strip(text), re.M))
