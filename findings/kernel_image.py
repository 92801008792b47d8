# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's kernels at rest: unpacks a vmlinuz, and finds in the vmlinux the
tables from which the kernel makes /proc/kallsyms.

As a program: kernel_image.py VMLINUZ VMLINUX unpacks."""

import lzma
import struct
import subprocess
import sys


def unpack(path):
    """The vmlinux in a vmlinuz (bytes)"""
    with open(path, "rb") as file:
        image = file.read()
    assert image[0x202:0x206] >= b"\x08\x02" and image[0x1fe:0x200] == b"\x55\xaa"
    start = (max(image[0x1f1], 4) + 1) * 512 + \
        struct.unpack_from("<I", image, 0x248)[0]
    # The size of what was packed follows the packed bytes.
    packed = image[start:start + struct.unpack_from("<I", image, 0x24c)[0] - 4]
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(["zstd", "-dc"], input=packed, check=True,
                              stdout=subprocess.PIPE).stdout
    if packed.startswith(b"\xfd7zXZ"):
        return lzma.decompress(packed)
    sys.exit(f"{path}: packed in a way that is not known here")


class Section:
    def __init__(self, name, kind, flags, address, offset, size):
        self.name, self.kind, self.flags = name, kind, flags
        self.address, self.offset, self.size = address, offset, size


def sections(image):
    """The sections of an ELF file, by name"""
    wide = image[4] == 2
    at, = struct.unpack_from("<Q" if wide else "<I", image,
                             0x28 if wide else 0x20)
    entry, count, names = struct.unpack_from("<3H", image,
                                             0x3a if wide else 0x2e)
    headers = [struct.unpack_from("<IIQQQQ" if wide else "<6I", image,
                                  at + i * entry) for i in range(count)]
    text = headers[names][4]
    found = {}
    for name, *rest in headers:
        end = image.index(b"\0", text + name)
        name = image[text + name:end].decode()
        found[name] = Section(name, *rest)
    return found


class Kallsyms:
    """The tables.  All places are addresses: num_syms (value: count), names,
    markers, token_table, token_index."""

    def __init__(self, image):
        rodata = sections(image)[".rodata"]
        self.base = rodata.address
        self.bytes = image[rodata.offset:rodata.offset + rodata.size]
        index, table = self._tokens()
        starts = struct.unpack_from("<256H", self.bytes, index)
        self.tokens = [self.bytes[table + at:self.bytes.index(b"\0", table + at)]
                       for at in starts]
        count, names, lengths, markers = self._names(table)
        self.count = count
        self.symbols = []
        at = names
        for head, length in lengths:
            codes = self.bytes[at + head:at + head + length]
            self.symbols.append(
                b"".join(self.tokens[code] for code in codes).decode("latin1"))
            at += head + length
        self.names, self.markers = self.base + names, self.base + markers
        self.markers_end = self.markers + 4 * ((count + 255) // 256)
        self.token_table, self.token_index = self.base + table, self.base + index
        self.token_index_end = self.token_index + 512

    def _tokens(self):
        """Where token_index and token_table are: the table is 256 texts, one
        after the other, most letters and digits stand for themselves"""
        digits = b"".join(bytes((c, 0)) for c in range(ord("0"), ord("9") + 1))
        at = -1
        while (at := self.bytes.find(digits, at + 1)) >= 0:
            start = at
            for _ in range(ord("0")):
                start = self.bytes.rindex(b"\0", 0, start - 1) + 1
            places, here = [], start
            for _ in range(256):
                places.append(here - start)
                here = self.bytes.index(b"\0", here) + 1
            if places[-1] > 0xffff:
                continue
            index = self.bytes.find(struct.pack("<256H", *places), here)
            # Zeros before the table may be taken for empty tokens.
            if 0 <= index - here < 16:
                return index, start
        sys.exit("this kernel has no token table where one is looked for")

    def _names(self, table):
        for at in range(table & ~3, 0, -4):
            count, = struct.unpack_from("<I", self.bytes, at)
            # A name takes 8 bytes and more on average.
            if not 10000 < count <= (table - at) // 8:
                continue
            for names in (at + 4, at + 8):
                if (found := self._walk(names, count, table)) is not None:
                    return count, names, *found
        sys.exit("this kernel has no table of names where one is looked for")

    def _walk(self, names, count, table):
        """The lengths of all names, if names are there, and the markers"""
        here, lengths, places = names, [], []
        for number in range(count):
            if here + 2 > table:
                return None
            if number % 256 == 0:
                places.append(here - names)
            length, head = self.bytes[here], 1
            if length & 0x80:
                length, head = length & 0x7f | self.bytes[here + 1] << 7, 2
            if length == 0:
                return None
            lengths.append((head, length))
            here += head + length
        expect = struct.pack(f"<{len(places)}I", *places)
        markers = self.bytes.find(expect, here, here + len(expect) + 16)
        return None if markers < 0 else (lengths, markers)

    def words(self, address, code, count):
        return struct.unpack_from(f"<{count}{code}", self.bytes,
                                  address - self.base)


if __name__ == "__main__":
    with open(sys.argv[2], "wb") as output:
        output.write(unpack(sys.argv[1]))
