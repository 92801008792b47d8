# SPDX-License-Identifier: GPL-2.0-or-later
"""Change what is in a trace and keep its frame right.

A trace is taken apart by docs/trace-format.md, into chunks, sections, events
and numbers.  Something in them is changed; then sizes, checksums, compression
and the index are made again, so that a reader gets as far as the change.
"""

import contextlib
import ctypes
import functools
import json
import os
import struct

import qemu
import traceformat
from traceformat import (
    DATA, END, GAP, INDEX, MANY, MASK, META, PAUSE, RESUME, SIDEBAND,
    STREAM_END, TIME, CR3, ZSTD, Damaged, Events, Section, Trace, get_sideband,
    get_spaces, require, space_of, unzigzag, varint, zigzag)

SYMBOLS, CODE, PROCESSES, IMAGE, SYSCALLS = 2, 1, 3, 4, 5
BYTES = 6, 7, 9                 # sections that are no sequences of varints

EDGES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 63, 64, 65, 127, 128, 255, 256, 1023,
         1024, 4095, 4096, 65535, 65536, (1 << 19) - 1, 1 << 19, 1 << 20,
         (1 << 22) - 1, 1 << 22, 1 << 24, 1 << 26, (1 << 31) - 1, 1 << 31,
         (1 << 32) - 1, 1 << 32, (1 << 47) - 1, 1 << 47, 1 << 52,
         (1 << 63) - 1, 1 << 63, 0x800000000000000f, MASK - 1, MASK)

NAMES = (b'', b'x', b'x' * 300, b'\x1b[31m', b'\n', b'\xff\xfe', b'a;b c',
         b'\0', b'%n%s', b'../../etc', b'[', b'"', '\u202e'.encode(),
         b'kernel', b'a\tb')


def quick_crc32c():
    """A function, in C where it is built"""
    build = os.environ.get('BACKTRAIL_BUILD')
    for folder in filter(None, (build, *(os.path.join(qemu.TOP, name) for name
                                         in ('build-sanitize', 'build')))):
        path = os.path.join(folder, 'tests', 'torture', 'libcrc32c.so')
        if os.access(path, os.R_OK):
            function = ctypes.CDLL(path).crc32c
            function.restype = ctypes.c_uint32
            return lambda data: function(bytes(data),
                                         ctypes.c_size_t(len(data)))
    return functools.lru_cache(4096)(traceformat.crc32c)


# Bytes that one byte of zstd stands for, at most
MOST_SHRUNK = 1 << 15

crc32c = quick_crc32c()


def compress(data):
    """A zstd frame"""
    ZSTD.ZSTD_compressBound.restype = ctypes.c_size_t
    ZSTD.ZSTD_compress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(
        ZSTD.ZSTD_compressBound(ctypes.c_size_t(len(data))))
    n = ZSTD.ZSTD_compress(out, ctypes.c_size_t(len(out)), bytes(data),
                           ctypes.c_size_t(len(data)), 3)
    return out.raw[:n]


@functools.lru_cache(1000)
def decompress(stored, size):
    if size == len(stored):
        return stored
    require(size <= 32 << 20 and size <= MOST_SHRUNK * len(stored), 'zstd')
    out = ctypes.create_string_buffer(size)
    if ZSTD.ZSTD_decompress(out, size, stored, len(stored)) != size:
        raise Damaged('zstd')
    return out.raw


def store(data):
    """As the file has them: compressed, if that makes them smaller"""
    small = compress(data)
    return small if len(small) < len(data) else bytes(data)


def varints(data):
    section = Section(data)
    numbers = []
    while not section.at_end():
        numbers.append(section.varint())
    return numbers


def number(r, old, bits=64):
    """Another number in place of one"""
    kind = r.randrange(6)
    if kind == 0:
        new = old + r.choice((-1, 1))
    elif kind == 1:
        new = old ^ 1 << r.randrange(bits)
    elif kind == 2:
        new = r.getrandbits(r.randrange(1, bits + 1))
    elif kind == 3:
        new = old + r.choice((-1, 1)) * r.randrange(1 << r.randrange(1, 20))
    else:
        new = r.choice(EDGES)
    return new & (1 << bits) - 1


def change_list(r, items, change):
    """One thing in a list: changed, or there is one more, less, elsewhere"""
    items = list(items)
    if not items:
        return [change(0)]
    i = r.randrange(len(items))
    kind = r.randrange(10)
    if kind < 5:
        items[i] = change(items[i])
    elif kind == 5:
        del items[i]
    elif kind == 6:
        items.insert(i, items[r.randrange(len(items))])
    elif kind == 7:
        j = r.randrange(len(items))
        items[i], items[j] = items[j], items[i]
    elif kind == 8:
        del items[i:]
    else:
        items[i:i] = items[i:i + r.randrange(1, 20)] * r.randrange(1, 20)
    return items


def change_varints(r, data):
    numbers = change_list(r, varints(data), lambda n: number(r, n))
    out = [varint(n) for n in numbers]
    if out and r.random() < 0.05:
        # The same number in more bytes, or one that is too long
        i = r.randrange(len(out))
        out[i] = bytes(b | 0x80 for b in out[i]) + \
            b'\x80' * r.randrange(9) + b'\0'
    return b''.join(out)


def change_bytes(r, data):
    return bytes(change_list(r, data, lambda n: number(r, n, 8)))


def pack_events(rows, time):
    """Events as codecs 5 to 8 have them"""
    columns = [bytearray() for _ in range(9)]
    recent = {kind: [] for kind in Events.LISTS}
    first = last = tuple(time)
    for distance, kind, reason, offset, *data in rows:
        kind, reason = kind & 0xffff, reason & 0xffff
        known = recent.get(kind)
        repeats = known is not None and data in known
        columns[0] += varint(bool(distance) | repeats << 1 |
                             bool(offset) << 2 | (kind & 15) << 3 |
                             reason << 7 | kind >> 4 << 23)
        columns[1] += varint(distance) if distance else b''
        columns[2] += varint(offset) if offset else b''
        at = 3
        if kind == TIME:
            time = tuple(t + unzigzag(d) & MASK for t, d in zip(last, data))
            guess = last[1]
            if 0 < first[0] < last[0] <= time[0] and first[1] <= last[1]:
                guess += (time[0] - last[0]) * (last[1] - first[1]) // \
                    (last[0] - first[0])
            data = [data[0], zigzag(time[1] - guess & MASK), data[2]]
            last = time
            first = first if first[0] else last
            at = 6
        elif kind in (PAUSE, RESUME, STREAM_END):
            data = [zigzag(data[0] - last[0] & MASK), *data[1:]]
        elif known is not None:
            place = known.index(data) if repeats else 15
            recent[kind] = [data, *known[:place], *known[place + 1:]]
            data = [place] if repeats else data
        for i, number_of in enumerate(data):
            columns[at + i] += varint(number_of)
    return b''.join(columns)


class Block:
    """The payload of a DATA chunk, to be changed"""

    NAMES = ('vcpu', 'codec', 'first', 'end', 'cr3', 'host', 'tsc', 'icount',
             'first_time', 'last_time', 'records', 'events', 'n')
    BITS = (32, 32, *[64] * 8, 32, 32, 32)

    def __init__(self, payload):
        fields = struct.unpack_from('<II8QIIII', payload)
        self.head = dict(zip(self.NAMES, fields))
        spaces, at = get_spaces(payload, 88, self.head['n'])
        self.spaces = list(spaces or ())
        table = at
        more = self.head['codec'] - 1 if self.head['codec'] in range(1, 9) \
            else 0
        self.events = 11 + (more & 1)
        sections = self.events + (2 if more & 2 else 1)
        at += 8 * sections
        self.sections = []
        for i in range(sections):
            size, stored = struct.unpack_from('<II', payload, table + 8 * i)
            self.sections.append(decompress(payload[at:at + stored], size))
            at += stored
        self.sizes = {}         # of sections: what the table says
        self.crc = 0
        self.tail = b''

    def time(self):
        return self.head['host'], self.head['tsc'], self.head['icount']

    def rows(self):
        """[distance, type, reason, index, data...] of each whole event, with
        the numbers that codecs 1 to 4 have"""
        n = self.head['events']
        if self.head['codec'] in range(5, 9):
            return self.predicted(n)
        columns = varints(self.sections[self.events])
        whole = min(n, len(columns) - 6 * n)
        return [columns[i:7 * n:n] for i in range(whole)]

    def predicted(self, n):
        """The same of what codecs 5 to 8 have"""
        rows, last = [], self.time()
        try:
            for distance, kind, reason, offset, *data in Events(
                    Section(self.sections[self.events]), n, last):
                if kind == TIME:
                    last, data = data, [zigzag(a - b) for a, b in
                                        zip(data, last)]
                rows.append([distance, kind, reason, zigzag(offset), *data])
        except Damaged:
            pass
        return rows

    def set_rows(self, rows):
        """Codecs 5 to 8 cannot have all of what the others can."""
        if self.head['codec'] in range(5, 9):
            self.sections[self.events] = pack_events(rows, self.time())
        else:
            self.sections[self.events] = b''.join(
                varint(row[i]) for i in range(7) for row in rows)
        self.head['events'] = len(rows)

    def settle(self):
        """Make the header what the events demand."""
        h = self.head
        position = h['first'] + h['records']
        times = [h['host']] if h['host'] else []
        host, cr3, spaces = h['host'], h['cr3'], []
        for _, kind, _, _, *data in self.rows():
            if kind == GAP and data[0] != MASK:
                position += data[0]
            elif kind == TIME:
                host = host + unzigzag(data[0]) & MASK
                times.append(host)
            elif kind == CR3:
                space = space_of(data[0])
                if space != space_of(cr3) and space not in spaces:
                    spaces.append(space)
                cr3 = data[0]
        h['end'] = position & MASK
        # A clock of 0 is none.
        h['first_time'] = next(filter(None, times), 0)
        h['last_time'] = host
        self.spaces = spaces if len(spaces) <= 64 else []
        h['n'] = len(spaces) if len(spaces) <= 64 else MANY

    def pack(self):
        h = self.head
        head = struct.pack('<II8QIII', *(h[name] & (1 << bits) - 1 for
                                         name, bits in
                                         zip(self.NAMES, self.BITS)))
        spaces = struct.pack(f'<{len(self.spaces)}Q', *self.spaces)
        stored = [store(s) for s in self.sections]
        table = b''.join(struct.pack('<II', *self.sizes.get(
            i, (len(s), len(t)))) for i, (s, t) in
            enumerate(zip(self.sections, stored)))
        crc = crc32c(head + spaces) ^ self.crc
        return (head + struct.pack('<I', crc) + spaces + table +
                b''.join(stored) + self.tail)


class Chunk:
    def __init__(self, kind, payload):
        self.kind = kind
        self.payload = payload
        self.reserved = 0, 0
        self.crc = 0            # of the payload, what is wrong with it
        self.sequence = None

    def copy(self):
        other = Chunk(self.kind, self.payload)
        other.__dict__.update(self.__dict__)
        return other


@functools.lru_cache(64)
def chunks_of(data):
    """Type and payload of each chunk but the index"""
    trace, found, at = Trace(data), [], 64
    while at < len(data):
        kind, _, payload, _ = trace.chunk(at)
        if kind not in (INDEX, END):
            found.append((kind, payload))
        at += 32 + len(payload)
    return found


class File:
    """A file that breaks no rule, until something in it is changed"""

    def __init__(self, data):
        self.head = bytearray(data[:64])
        self.chunks = [Chunk(*one) for one in chunks_of(data)]
        self.head_crc = 0
        self.index = 'right'
        self.change_entry = {}  # number: function
        self.change_end = lambda fields: fields
        self.after = b''

    def of(self, kind):
        return [c for c in self.chunks if c.kind == kind]

    @staticmethod
    def entry(at, chunk):
        """Of the index, as the page demands it; None if it has none"""
        size = len(chunk.payload)
        if chunk.kind == META:
            return struct.pack('<QIHHQQQQIIQII', at, size, META, *[0] * 10)
        if chunk.kind == SIDEBAND and size >= 16:
            kind, data, time = struct.unpack_from('<HxxIQ', chunk.payload)
            return struct.pack('<QIHHQQQQIIQII', at, size, SIDEBAND, kind, 0,
                               0, time, time, data, 0, 0, 0, 0)
        if chunk.kind == DATA and size >= 88:
            (vcpu, _, first, end, cr3, _, _, _, begin, last, records, events,
             n, _) = struct.unpack_from('<II8QIIII', chunk.payload)
            spaces = chunk.payload[88:88 + 8 * n] if n <= 64 else b''
            return struct.pack('<QIHHQQQQIIQII', at, size, DATA,
                               vcpu & 0xffff, first, end, begin, last,
                               records, events, cr3, n, 0) + spaces
        return None

    def pack(self):
        head = bytes(self.head[:60])
        out = bytearray(head + struct.pack(
            '<I', crc32c(head) ^ self.head_crc))
        entries = []
        place = 0

        def put(chunk):
            nonlocal place
            head = struct.pack(
                '<4sHHIIQI', b'\xb7btk', chunk.kind & 0xffff,
                chunk.reserved[0], len(chunk.payload),
                crc32c(bytes(chunk.payload)) ^ chunk.crc,
                place if chunk.sequence is None else chunk.sequence,
                chunk.reserved[1])
            out.extend(head + struct.pack('<I', crc32c(head)) +
                       chunk.payload)
            place += 1

        for chunk in self.chunks:
            entry = self.entry(len(out), chunk)
            if entry:
                change = self.change_entry.get(len(entries))
                entries.append(change(entry) if change else entry)
            put(chunk)
        if self.index == 'none':
            return bytes(out) + self.after
        at = len(out)
        if entries or self.index == 'empty':
            put(Chunk(INDEX, b''.join(entries)))
        put(Chunk(END, struct.pack('<3Q', *self.change_end(
            (at, len(entries), 0)))))
        return bytes(out) + self.after


# What is changed: each takes a source of random numbers, the file, and other
# files; it returns what it did, or None if there was nothing to change.

def change_head(r, file, others):
    at, size = r.choice(((12, 4), (16, 4), (20, 4), (24, 2), (26, 2),
                         (28, 16), (44, 4), (48, 12)))
    old = int.from_bytes(file.head[at:at + size], 'little')
    new = number(r, old, 8 * size)
    file.head[at:at + size] = new.to_bytes(size, 'little')
    return f'file header, {at}: {old} to {new}'


def change_chunks(r, file, others):
    chunks = file.chunks
    if not chunks:
        return None
    i, j = r.randrange(len(chunks)), r.randrange(len(chunks))
    kind = r.randrange(8)
    if kind == 0:
        del chunks[i]
        return f'chunk {i} is missing'
    if kind == 1:
        chunks.insert(j, chunks[i].copy())
        return f'chunk {i} again at {j}'
    if kind == 2:
        chunks[i], chunks[j] = chunks[j], chunks[i]
        return f'chunks {i} and {j} exchanged'
    if kind == 3:
        chunks[i].sequence = number(r, i)
        return f'sequence number of chunk {i}'
    if kind == 4:
        chunks[i].kind = r.choice((0, META, DATA, INDEX, END, SIDEBAND, 6,
                                   65535))
        return f'type of chunk {i} is {chunks[i].kind}'
    if kind == 5:
        chunks[i].crc = 1 << r.randrange(32)
        return f'checksum of chunk {i}'
    if kind == 6:
        chunks[i].reserved = r.getrandbits(16), r.getrandbits(32)
        return f'reserved fields of chunk {i}'
    del chunks[min(i, j):max(i, j)]
    return f'chunks {min(i, j)} to {max(i, j)} are missing'


def splice(r, file, others):
    other = File(r.choice(others))
    i = r.randrange(len(file.chunks) + 1)
    j = r.randrange(len(other.chunks) + 1)
    kind = r.randrange(3)
    if kind == 0:
        file.chunks[i:] = other.chunks[j:]
    elif kind == 1:
        file.chunks[i:i] = other.chunks[j:j + r.randrange(1, 5)]
    else:
        file.chunks = [c for pair in zip(file.chunks, other.chunks)
                       for c in pair]
    return f'spliced with another file at {i}, {j}, kind {kind}'


def change_payload(r, file, others):
    if not file.chunks:
        return None
    chunk = r.choice(file.chunks)
    chunk.payload = change_bytes(r, chunk.payload)
    return f'bytes of a payload, type {chunk.kind}'


def of_meta(r, value):
    """Something else in a JSON value"""
    if isinstance(value, dict) and value and r.random() < 0.8:
        name = r.choice(list(value))
        return {**value, name: of_meta(r, value[name])}
    if isinstance(value, list) and value and r.random() < 0.8:
        i = r.randrange(len(value))
        return [*value[:i], of_meta(r, value[i]), *value[i + 1:]]
    return r.choice((None, True, [], {}, '', -1, 0, 1e308, -0.5, 1 << 63,
                     (1 << 64) - 1, 1 << 70, 'x' * 70000, [value] * 3,
                     {'start': value}, '\x1b[31m\n\u202e', [[[[[]]]]],
                     r.choice(EDGES)))


def change_meta(r, file, others):
    if not file.of(META):
        file.chunks.insert(0, Chunk(META, b'{}'))
    chunk = r.choice(file.of(META))
    if r.random() < 0.2:
        chunk.payload = r.choice((
            b'', b'{', b'[]', b'null', b'{"a":' * 5000 + b'1' + b'}' * 5000,
            b'[' * 50000, b'{"a":"\xff"}', b'{}\0', b'{"a":1}' * 2,
            b'{"start":{"monotonic":1e999}}', b' ' * (1 << 20),
            b'{"split":' + b'9' * 400 + b'}'))
        return 'META is no description'
    try:
        value = json.loads(chunk.payload)
    except (ValueError, RecursionError):
        return None
    if r.random() < 0.4:
        name = r.choice(('start', 'end', 'vcpus', 'tick_ns', 'privilege',
                         'cr3', 'names', 'session', 'guest', 'split', 'ring',
                         'attached', 'overflow', 'tsc_hz', 'version'))
        value = {**value, name: of_meta(r, value.get(name, {}))} \
            if isinstance(value, dict) else value
    else:
        value = of_meta(r, value)
    chunk.payload = json.dumps(value).encode()
    return f'META: {chunk.payload[:200]!r}'


def some_block(r, file):
    chunks = file.of(DATA)
    if not chunks:
        return None, None
    chunk = r.choice(chunks)
    try:
        return chunk, Block(chunk.payload)
    except (Damaged, struct.error):
        return None, None


def change_block_head(r, file, others):
    chunk, block = some_block(r, file)
    if not block:
        return None
    i = r.randrange(len(block.NAMES))
    name = block.NAMES[i]
    old = block.head[name]
    block.head[name] = number(r, old, block.BITS[i])
    if name in ('first', 'cr3', 'host') and r.random() < 0.8:
        block.settle()
    chunk.payload = block.pack()
    return f'DATA: {name} from {old} to {block.head[name]}'


def change_block_frame(r, file, others):
    """Spaces, sizes of sections, and what follows them"""
    chunk, block = some_block(r, file)
    if not block:
        return None
    kind = r.randrange(4)
    if kind == 0:
        block.spaces = change_list(r, block.spaces, lambda n: number(r, n))
        if r.random() < 0.7:
            block.head['n'] = len(block.spaces)
    elif kind == 1:
        i = r.randrange(len(block.sections))
        block.sizes[i] = tuple(
            number(r, n, 32) if r.random() < 0.7 else n for n in
            (len(block.sections[i]), len(store(block.sections[i]))))
    elif kind == 2:
        block.crc = 1 << r.randrange(32)
    else:
        block.tail = r.randbytes(r.randrange(1, 100))
    chunk.payload = block.pack()
    return f'DATA: frame, kind {kind}'


def change_records(r, file, others):
    chunk, block = some_block(r, file)
    if not block:
        return None
    i = r.randrange(len(block.sections) - 1)
    old = block.sections[i]
    try:
        block.sections[i] = (change_bytes if i in BYTES else
                             change_varints)(r, old)
    except Damaged:
        return None
    if r.random() < 0.2:
        block.head['records'] = number(r, block.head['records'], 23)
        block.settle()
    chunk.payload = block.pack()
    return f'DATA: section {i}'


def _event(r, row):
    if not row:
        return [0, r.randrange(9), r.randrange(12), 0, 0, 0, 0]
    row = list(row)
    i = r.randrange(7)
    row[i] = r.randrange(10) if i in (1, 2) and r.random() < 0.7 else \
        number(r, row[i])
    return row


def change_events(r, file, others):
    chunk, block = some_block(r, file)
    if not block:
        return None
    try:
        rows = change_list(r, block.rows(), lambda row: _event(r, row))
        if block.head['codec'] in range(5, 9) and r.random() < 0.3:
            block.head['codec'] -= 4    # as older versions have written it
        block.set_rows(rows[:1 << 16])
        if r.random() < 0.85:
            block.settle()
    except Damaged:
        return None
    chunk.payload = block.pack()
    return 'DATA: events'


def renumber(r, file, others):
    """All chunks of a vCPU are elsewhere in its stream, or of another one."""
    blocks = []
    for chunk in file.of(DATA):
        try:
            blocks.append((chunk, Block(chunk.payload)))
        except (Damaged, struct.error):
            pass
    if not blocks:
        return None
    vcpu = r.choice(blocks)[1].head['vcpu']
    more = number(r, 0, r.choice((8, 32, 63)))
    other = r.choice((vcpu, 1023, 1024, 7))
    for chunk, block in blocks:
        if block.head['vcpu'] == vcpu:
            block.head['vcpu'] = other
            block.head['first'] = block.head['first'] + more & MASK
            block.head['end'] = block.head['end'] + more & MASK
            chunk.payload = block.pack()
    return f'DATA: stream {vcpu} is {other}, from {more} on'


def _symbols(r, text):
    def line(old):
        words = (old or b'0 t x').split()
        i = r.randrange(4)
        if i == 0:
            words[0] = b'%x' % number(r, 0xffffffff81000000)
        elif i == 1:
            words[1:2] = [r.choice((b'', b't', b'U', b'\xff', b'tt'))]
        elif i == 2:
            words[2:3] = [r.choice(NAMES)]
        else:
            words.append(b'[' + r.choice(NAMES) + b']')
        return b' '.join(words)
    return b'\n'.join(change_list(r, text.split(b'\n'), line))


def _snapshot(r, data):
    """Its strings are in front of all else but four numbers."""
    section = Section(data)
    head = [section.varint() for _ in range(3)]
    strings = []
    for _ in range(min(section.varint(), 1 << 16)):
        size = section.varint()
        strings.append(data[section.at:section.at + size])
        section.at += size
    rest = data[section.at:]
    kind = r.randrange(4)
    if kind == 0:
        head[r.randrange(3)] = number(r, r.choice(head))
    elif kind == 1:
        strings = change_list(r, strings, lambda old: r.choice(NAMES) +
                              (r.choice(NAMES)))
    else:
        rest = change_varints(r, rest)
    n = len(strings) if r.random() < 0.95 else number(r, len(strings), 32)
    return b''.join((*(varint(h) for h in head), varint(n),
                     *(varint(len(s)) + s for s in strings), rest))


def _code(r, data):
    n, same, contents = struct.unpack_from('<III', data)
    at, kind = 16, r.randrange(4)
    data = bytearray(data)
    if kind == 0 or n + same == 0:
        # The numbers and what is there, or the numbers alone
        struct.pack_into('<I', data, r.choice((0, 4, 8)),
                         number(r, r.choice((n, same, contents)), 32))
    elif kind < 3 and n:
        place, size = r.choice(((0, 4), (4, 4), (8, 8), (16, 8), (24, 8),
                                (32, 8), (40, 8)))
        at += 48 * r.randrange(n) + place
        old = int.from_bytes(data[at:at + size], 'little')
        data[at:at + size] = number(r, old, 8 * size).to_bytes(size, 'little')
    else:
        at += 48 * n + 8 * r.randrange(2 * same + contents or 1)
        old = int.from_bytes(data[at:at + 8], 'little')
        data[at:at + 8] = number(r, old).to_bytes(8, 'little')
    return bytes(data)


def change_sideband(r, file, others):
    chunks = [c for c in file.of(SIDEBAND) if len(c.payload) >= 16]
    if not chunks:
        return None
    chunk = r.choice(chunks)
    try:
        kind, size, time = get_sideband(chunk.payload)
        data = decompress(chunk.payload[16:], size)
        change = {SYMBOLS: _symbols, SYSCALLS: _symbols, PROCESSES: _snapshot,
                  CODE: _code}.get(kind, change_bytes)
        if r.random() < 0.1:
            change = change_bytes
        elif r.random() < 0.1:
            kind = number(r, kind, 4)
        elif r.random() < 0.1:
            time = number(r, time)
        data = change(r, data)
    except (Damaged, struct.error):
        return None
    size = len(data) if r.random() < 0.95 else number(r, len(data), 24)
    chunk.payload = struct.pack('<HHIQ', kind, 0, size, time) + store(data)
    return f'SIDEBAND: kind {kind}'


def change_index(r, file, others):
    kind = r.randrange(5)
    if kind == 0:
        file.index = 'none'
        return 'no index'
    if kind == 1:
        which = r.randrange(3)

        def change(fields):
            fields = list(fields)
            fields[which] = number(r, fields[which])
            return fields

        file.change_end = change
        return f'END: field {which}'

    def entry(old):
        at, size = r.choice(((0, 8), (8, 4), (12, 2), (14, 2), (16, 8),
                             (24, 8), (32, 8), (40, 8), (48, 4), (52, 4),
                             (56, 8), (64, 4), (68, 4)))
        value = number(r, int.from_bytes(old[at:at + size], 'little'),
                       8 * size)
        return old[:at] + value.to_bytes(size, 'little') + old[at + size:]

    i = r.randrange(len(file.chunks) or 1)
    file.change_entry[i] = (lambda old: b'') if kind == 2 else entry
    return f'INDEX: entry {i}, kind {kind}'


# Not well formed, except for the frame
CHANGES = (change_head, change_chunks, change_chunks, splice, change_payload,
           change_meta, change_block_head, change_block_head,
           change_block_frame, *[change_records] * 4, *[change_events] * 4,
           renumber, *[change_sideband] * 6, change_index, change_index)


def change_raw(r, data):
    """What breaks the frame itself"""
    kind = r.randrange(4)
    at = r.randrange(64, len(data) + 1) if len(data) > 64 else len(data)
    if kind == 0:
        return data[:at], f'cut off at {at}'
    if kind == 1:
        return data[:at] + r.randbytes(r.randrange(1, 300)) + data[at:], \
            f'garbage at {at}'
    if kind == 2:
        return data + data[64:], 'all chunks once more'
    data = bytearray(data)
    first = 64 if len(data) > 64 else 0
    for _ in range(r.randrange(1, 9)):
        data[r.randrange(first, len(data))] ^= 1 << r.randrange(8)
    return bytes(data), 'bits flipped'


def mutate(r, seeds, growths=()):
    """Another trace, made of some; and what was changed

    growths are functions as of CHANGES, which break no rule: half of the traces
    have only such.
    """
    file = File(r.choice(seeds))
    done = []
    want = r.choice((1, 1, 1, 2, 3, 6))
    changes = r.choice((CHANGES, growths)) if growths else CHANGES
    if growths and r.random() < 0.3:
        changes = CHANGES + growths
    for _ in range(50):
        # What an earlier change has damaged cannot be taken apart.
        with contextlib.suppress(Damaged):
            done += filter(None, [r.choice(changes)(r, file, seeds)])
        if len(done) >= want:
            break
    data = file.pack()
    if changes is not growths and r.random() < 0.1:
        data, what = change_raw(r, data)
        done.append(what)
    return data, done
