# SPDX-License-Identifier: GPL-2.0-or-later
"""The functions of a guest's kernel, as its own /proc/kallsyms has them."""

import base64
import bisect
import gzip
import re
import struct

# Part of an init script: prints them on the serial port.
PRINT = '''echo "BT: symbols"
grep -i " [tw] " /proc/kallsyms | gzip -c | base64 -w 0
echo
'''
FOLLOWS = r'BT: symbols\s+(\S+)\s'


class KernelSymbols:
    """serial is what a guest with PRINT has written."""

    def __init__(self, serial):
        packed = re.search(FOLLOWS, serial)[1]
        lines = gzip.decompress(base64.b64decode(packed)).decode().splitlines()
        words = sorted((int(w[0], 16), w[2])
                       for w in (line.split() for line in lines))
        # Those of per-CPU data are offsets.
        self.symbols = [s for s in words if s[0] >> 63]
        self.addresses = [address for address, _ in self.symbols]

    def address(self, name):
        return next(a for a, n in self.symbols if n == name)

    def name(self, address):
        """The function that has this address"""
        return self.symbols[bisect.bisect_right(self.addresses, address)
                            - 1][1]

    def write(self, path):
        """As an ELF file without code, for gdb"""
        first, last = self.addresses[0], self.addresses[-1] + 4096
        names = b'\0'
        table = bytes(24)
        for (address, name), end in zip(self.symbols,
                                        [*self.addresses[1:], last]):
            table += struct.pack('<IBBHQQ', len(names), 0x12, 0, 1, address,
                                 end - address)
            names += name.encode() + b'\0'
        headings = b'\0.text\0.symtab\0.strtab\0.shstrtab\0'
        at = 64
        sections = [bytes(64), struct.pack('<IIQQQQIIQQ', 1, 8, 6, first, at,
                                           last - first, 0, 0, 16, 0)]
        for title, kind, data, link, size in (
                (b'.symtab', 2, table, 3, 24), (b'.strtab', 3, names, 0, 0),
                (b'.shstrtab', 3, headings, 0, 0)):
            sections.append(struct.pack(
                '<IIQQQQIIQQ', headings.index(title), kind, 0, 0, at,
                len(data), link, 1 if link else 0, 1, size))
            at += len(data)
        with open(path, 'wb') as f:
            f.write(b'\x7fELF\2\1\1' + bytes(9) + struct.pack(
                '<HHIQQQIHHHHHH', 2, 62, 1, 0, 0, at, 0, 64, 56, 0, 64,
                len(sections), 4))
            f.write(table + names + headings + b''.join(sections))
