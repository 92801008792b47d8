# SPDX-License-Identifier: GPL-2.0-or-later
"""Names that would control a terminal or forge lines, and how they may be shown.

Nothing here is shared with host-agent/util/quote.c: Python's tables of Unicode
say what is not seen.
"""

import json
import re
import unicodedata

# What a name has after a tag of three characters, by which it is found.  With
# that, each fits into the 15 bytes that Linux has for the name of a task.
EVIL = (
    b'\x1b[31mred', b'\x07\x1b]0;t\x07', b'x\rback', b'\nn: forged', b'\tt\t',
    b';a;b 3', b'"q\'"', b'<script>', b'</script>', b'&lt;', b'\xc2\x9b31m',
    b'\x9b31m', b'\xe2\x80\xaeexe', b'\xff\xfe\xc3', b'\xe2\x80\xa8x',
    b'\xe2\x80\x8b\xef\xbb\xbf', b'\x7f\b\b', b' 1 [0] 1.0: ', b'%s%n',
    b'\\x1b\\', b'a,b,7', b' (a) -> b', b'\xf3\xa0\x80\x81', b'\x01\x1f\x0e',
    b'\xc2\x85\xc2\xad', b'\xe2\x81\xa6y', b'\xed\xa0\x80', b'\x1b',
    b'K\xc3\xa4se', b'\xe6\x97\xa5\xe6\x9c\xac', b'',
)

NAMES = tuple(b'n%02d' % i + evil for i, evil in enumerate(EVIL))

_LETTERS = dict(zip('\a\b\t\n\v\f\r\\"', 'abtnvfr\\"'))


def hidden(c):
    """Is a character not seen, or does it change how others are seen?"""
    return unicodedata.category(c) in ('Cc', 'Cf', 'Zl', 'Zp', 'Cs', 'Cn')


def shown(name, also=''):
    """How a name is printed where also means something."""
    out = ''
    for c in name.decode(errors='surrogateescape'):
        if not hidden(c) and c != '\\' and c not in also:
            out += c
        elif c in _LETTERS:
            out += '\\' + _LETTERS[c]
        elif '\udc80' <= c <= '\udcff':
            out += f'\\x{ord(c) - 0xdc00:02x}'
        elif ord(c) < 0x80:
            out += f'\\x{ord(c):02x}'
        else:
            out += f'\\u{ord(c):04x}' if ord(c) < 0x10000 else \
                f'\\U{ord(c):08x}'
    return out


def text(name):
    """A name as a JSON parser has it: each byte that is not UTF-8 is U+FFFD."""
    return re.sub('[\udc80-\udcff]', '\ufffd',
                  name.decode(errors='surrogateescape'))


def leaks(data, allowed='\n'):
    """What of an output, which is bytes, may not reach a terminal."""
    try:
        return sorted({hex(ord(c)) for c in data.decode()
                       if hidden(c) and c not in allowed})
    except UnicodeDecodeError as e:
        return [str(e)]


def tagged(output, names=NAMES, forms=('', ';', ',', ' ', ' ;', '"')):
    """An output with the tag of each name in place of what is shown of it."""
    known = {shown(name, also): name[:3].decode()
             for name in names for also in forms}
    for one in sorted(known, key=len, reverse=True):
        output = output.replace(one, known[one])
    return output


def tagged_json(value, names=NAMES):
    """The same of what a JSON parser has returned; lists are sorted."""
    if isinstance(value, str):
        for name in sorted(names, key=len, reverse=True):
            value = value.replace(text(name), name[:3].decode())
        return value
    if isinstance(value, list):
        return sorted((tagged_json(v, names) for v in value),
                      key=lambda v: json.dumps(v, sort_keys=True))
    if isinstance(value, dict):
        return {tagged_json(k, names): tagged_json(v, names)
                for k, v in value.items()}
    return value
