# SPDX-License-Identifier: GPL-2.0-or-later
"""A reader of traces that is made of docs/trace-format.md alone.

It shares no code with libbacktrail, so what both read can be compared.
"""

import ctypes
import ctypes.util
import decimal
import json
import struct
import subprocess

MASK = 2 ** 64 - 1
META, DATA, INDEX, END, SIDEBAND = 1, 2, 3, 4, 5
CR3, TIME, GAP, PAUSE, RESUME, STREAM_END = 1, 2, 3, 4, 5, 6
TASK, KERNEL, WAKE = 7, 8, 9
NESTED, UNKNOWN_KERNEL = 1, 2
SYMBOLS, PROCESSES, ENDED = 2, 3, 10    # kinds of SIDEBAND
KERNEL_TASK, UNKNOWN_TASK = 1, 2
LEFT = {'runnable': 4, 'blocked': 8, 'dead': 12, 'interruptible': 8 | 16,
        'uninterruptible': 8 | 32}
KERNEL_WAKE, UNKNOWN_WAKE, NEW_WAKE = 1, 2, 4
OVERWRITTEN, AGENT_LOST, CORRUPT = 2, 3, 7
MANY = 2 ** 32 - 1


CODE16, CODE32 = 1 << 59, 1 << 58       # in CR3: the mode of code


def cr3_of(line):
    """CR3 with the mode of code, of a line of backtrail script --json"""
    mode = {None: 0, 16: CODE16, 32: CODE32}[line.get('bits')]
    return int(line['cr3'], 16) | mode


def space_of(cr3):
    """The address space of a CR3"""
    if cr3 >> 63:
        return cr3 & 0x90000000ffffffe0
    return cr3 & 0x100ffffffffff000


def load_zstd():
    name = ctypes.util.find_library('zstd')
    if not name:
        return None
    lib = ctypes.CDLL(name)
    lib.ZSTD_decompress.restype = ctypes.c_size_t
    lib.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t,
                                    ctypes.c_char_p, ctypes.c_size_t]
    return lib


ZSTD = load_zstd()


class Damaged(Exception):
    """A piece of a file breaks a rule"""


def require(condition, what):
    if not condition:
        raise Damaged(what)


def crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def zigzag(d):
    d &= MASK
    return d << 1 & MASK ^ (MASK if d >> 63 else 0)


def unzigzag(z):
    return (z >> 1) ^ (MASK if z & 1 else 0)


class Section:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def varint(self):
        value = 0
        for shift in range(0, 70, 7):
            require(self.at < len(self.data), 'a varint is cut off')
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                require(value <= MASK, 'a varint is too large')
                return value
        raise Damaged('a varint is too long')

    def byte(self):
        require(self.at < len(self.data), 'a byte is missing')
        self.at += 1
        return self.data[self.at - 1]

    def at_end(self):
        return self.at == len(self.data)


FACTORS = (0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53,
           0xBF58476D1CE4E5B9)


def slot(*numbers):
    return (sum(n * f for n, f in zip(numbers, FACTORS)) & MASK) >> 48


class Path:
    """Codecs 1 and 2: addresses"""

    def __init__(self, none, edge, edges, straights, lengths, other_lengths,
                 targets, places, distances, returns):
        self.misses = none, edge, edges
        self.predicted_by = 0
        self.straights = straights
        self.lengths, self.other_lengths = lengths, other_lengths
        self.targets, self.places = targets, places
        self.distances, self.returns = distances, returns
        self.edges = [(0, 0)]
        self.path = [(0, 0), (0, 0), (0, 15)]   # the third is step 0
        self.ahead = 0
        self.taken, self.leaving, self.arriving = {}, {}, {}
        self.after = {}
        self.last = {}
        self.calls = [0] * 64
        self.call = 0

    def step(self, number):
        return self.path[number + 2]

    def decode(self, n):
        """from and to of n records"""
        end = n + 3
        while len(self.path) < end:
            value = self.misses[self.predicted_by].varint()
            forks = value >> 3
            require(self.ahead or value < 4, 'nothing is predicted')
            if value & 4:
                straight = self.straights.varint()
                while forks or straight:
                    if forks:
                        forks -= self.go_on(end)
                    else:
                        self.go_on(end)
                        straight -= 1
            else:
                while forks or not self.step(self.ahead)[1]:
                    if len(self.path) == end:
                        break
                    forks -= self.go_on(end)
                if len(self.path) == end:
                    require(not forks and not value & 7, 'no miss at the end')
                    break
            require(len(self.path) < end, 'a miss after the end')
            self.miss(value & 3)
        return [self.edges[edge] for edge, _ in self.path[3:]]

    @staticmethod
    def counts(pairs, section):
        """Codec 2: the instruction count of each of these records"""
        between, count, to = {}, 0, 0
        right, more = Path.next_count(section)
        for i, pair in enumerate(pairs):
            place = slot(to, pair[0])
            if right == 0:
                count += more
                between[place] = more & 0xFFFFFFFF
                right, more = Path.next_count(section)
                require(right is None or right < len(pairs) - i - 1,
                        'place of a count')
            else:
                count += between.get(place, 0)
                right = None if right is None else right - 1
            to = pair[1]
            yield count & (1 << 48) - 1

    @staticmethod
    def next_count(section):
        if section.at_end():
            return None, 0
        return section.varint(), section.varint()

    def go_on(self, end):
        """A step as predicted; returns whether it is at a fork"""
        require(len(self.path) < end, 'steps after the end')
        edge, count = self.step(self.ahead)
        self.path.append((edge, max(count - 1, 0)))
        self.ahead += 1
        return count > 0

    def miss(self, kind):
        predicted = self.step(self.ahead)[0]
        before = [edge for edge, _ in self.path[:-4:-1]]
        place = slot(before[0], predicted)
        edge, step = self.taken.get(place, (0, 0))
        number = len(self.path) - 2
        if kind == 0:
            require(edge, 'an edge that is not known')
            self.predicted_by = 2
        else:
            edge = self.edge(kind, self.start(self.edges[before[0]][1],
                                              predicted))
            context = slot(edge, *before)
            same, step = self.after.get(context, (0, 0))
            self.predicted_by = 2
            if same != edge:
                step = self.last.get(edge, 0)
                self.predicted_by = 1 if step else 0
            self.after[context] = (edge, number)
        self.path[self.ahead + 2] = (predicted, 15)
        self.ahead = step + 1 if step else 0
        self.taken[place] = (edge, number)
        self.last[edge] = number
        self.path.append((edge, 15 if predicted else 0))

    def edge(self, kind, start):
        if kind == 1:
            edge = self.leaving.get(slot(start), 0)
            require(edge and self.edges[edge][0] == start,
                    'an edge that was not seen')
        else:
            edge = self.new(kind, start)
        self.leaving[slot(start)] = edge
        return edge

    def start(self, begin, predicted):
        """from of an edge that is not the one predicted"""
        if not predicted:
            return begin + self.lengths.varint() & MASK
        other = self.edges[predicted][0] - begin & MASK
        v = self.other_lengths.varint()
        return begin + (other if v == 0 else v - (v <= other)) & MASK

    def target(self, start):
        byte = self.targets.byte()
        if byte == 1:
            place = self.places.byte() | self.places.byte() << 8
            edge = self.arriving.get(place, 0)
            require(edge, 'a target that is not known')
            return self.edges[edge][1]
        if byte >= 128:
            byte = byte - 128 + 128 * self.distances.varint() & MASK
        return start + unzigzag(byte) & MASK

    def new(self, kind, start):
        if kind == 2:
            to = self.target(start)
            self.arriving[slot(to)] = len(self.edges)
            if to - start & MASK >= 128:
                self.calls[self.call % 64] = start
                self.call += 1
        else:
            byte = self.returns.byte()
            self.call -= (byte >> 4) + 1
            to = self.calls[self.call % 64] + (byte & 15) & MASK
        require(len(self.edges) <= 1 << 19, 'number of edges')
        self.edges.append((start, to))
        return len(self.edges) - 1


def get_spaces(payload, at, n):
    """A list of address spaces, and where it ends; None for too many"""
    if n == MANY:
        return None, at
    require(n <= 64 and len(payload) >= at + 8 * n, 'list of address spaces')
    return struct.unpack_from(f'<{n}Q', payload, at), at + 8 * n


class Events:
    """Codecs 5 to 8: the events"""

    LISTS = CR3, TASK, KERNEL, WAKE

    def __init__(self, section, n, time):
        self.kinds = [section.varint() for _ in range(n)]
        require(all(kind < 1 << 35 for kind in self.kinds), 'kind of an event')
        clocks = [self.type(kind) == TIME for kind in self.kinds]
        others = [kind for kind, clock in zip(self.kinds, clocks) if not clock]
        new = len([kind for kind in others if not kind & 2])
        sizes = (len([kind for kind in self.kinds if kind & 1]),
                 len([kind for kind in self.kinds if kind & 4]),
                 len(others), new, new, *[sum(clocks)] * 3)
        (self.gaps, self.offsets, *self.data) = [
            iter([section.varint() for _ in range(size)]) for size in sizes]
        self.first = self.last = tuple(time)
        self.recent = {kind: [] for kind in self.LISTS}

    @staticmethod
    def type(kind):
        return kind >> 3 & 15 | kind >> 23 << 4

    def time(self):
        host, tsc, icount = map(next, self.data[3:])
        (first, tsc0, _), (last, tsc1, icount1) = self.first, self.last
        host = last + unzigzag(host) & MASK
        guess = tsc1
        if 0 < first < last <= host and tsc0 <= tsc1:
            guess += (host - last) * (tsc1 - tsc0) // (last - first)
        self.last = (host, guess + unzigzag(tsc) & MASK,
                     icount1 + unzigzag(icount) & MASK)
        if not first:
            self.first = self.last
        return self.last

    def what(self, kind, repeats):
        """The three data of an event that is no TIME event"""
        if repeats:
            require(kind in self.LISTS, 'an event cannot repeat another one')
            recent, place = self.recent[kind], next(self.data[0])
            require(place < len(recent), 'place of an event that is repeated')
            recent.insert(0, recent.pop(place))
            return recent[0]
        data = tuple(map(next, self.data[:3]))
        if kind in self.LISTS:
            self.recent[kind] = [data, *self.recent[kind][:15]]
        elif kind in (PAUSE, RESUME, STREAM_END):
            return self.last[0] + unzigzag(data[0]) & MASK, *data[1:]
        return data

    def __iter__(self):
        """Records before it, type, reason, index - position, data"""
        for number in self.kinds:
            kind, reason = self.type(number), number >> 7 & 0xffff
            distance = next(self.gaps) if number & 1 else 0
            offset = unzigzag(next(self.offsets)) if number & 4 else 0
            repeats = number & 2
            require(not repeats or kind != TIME, 'a TIME event that repeats')
            data = self.time() if kind == TIME else self.what(kind, repeats)
            yield distance, kind, reason, offset, *data


def simple_events(section, n, time):
    """Codecs 1 to 4: the same"""
    columns = [[section.varint() for _ in range(n)] for _ in range(7)]
    time = tuple(time)
    for distance, kind, reason, offset, *data in zip(*columns):
        require(kind < 1 << 16 and reason < 1 << 16, 'type or reason')
        if kind == TIME:
            data = time = tuple(t + unzigzag(d) & MASK
                                for t, d in zip(time, data))
        yield distance, kind, reason, unzigzag(offset), *data


class Block:
    """The payload of a DATA chunk"""

    def __init__(self, payload):
        require(len(payload) >= 184, 'too short')
        (self.vcpu, self.codec, self.first, self.end, self.cr3, host, tsc,
         icount, self.first_time, self.last_time, self.n_records,
         self.n_events, n, crc) = struct.unpack_from('<IIQQQQQQQQIIII',
                                                     payload)
        self.spaces, self.table = get_spaces(payload, 88, n)
        require(crc == crc32c(payload[:84] + payload[88:self.table]),
                'checksum of the header')
        require(len(payload) >= self.table + 96, 'too short')
        require(self.vcpu < 1024 and self.n_records <= 1 << 22 and
                self.n_events <= 1 << 16, 'limits')
        require(self.first + self.n_records <= self.end < MASK, 'end index')
        self.time = [host, tsc, icount]
        self.payload = payload

    def summary(self):
        """What an index entry says, too"""
        return (self.vcpu, self.first, self.end, self.first_time,
                self.last_time, self.n_records, self.n_events, self.cr3,
                self.spaces)

    def has_counts(self):
        return self.codec in (2, 4, 6, 8)

    def has_footprint(self):
        return self.codec in (3, 4, 7, 8)

    def events(self, section):
        """As docs/trace-format.md says, with the numbers that are meant"""
        coding = simple_events if self.codec < 5 else Events
        return coding(section, self.n_events, self.time)

    def sections(self, footprint=False):
        """Those of records and events, or also the footprint, if there is one"""
        limits = [n * self.n_records
                  for n in (4, 4, 4, 4, 10, 10, 1, 2, 9, 1, 14)]
        if self.has_counts():
            limits.append(11 * self.n_records)
        n = len(limits)
        limits.append(50 * self.n_events)
        if self.has_footprint():
            limits.append(5 + (1 << 15) * 20)
        at = self.table + 8 * len(limits)
        require(at <= len(self.payload), 'too short')
        require(sum(struct.unpack_from(f'<{2 * n}I', self.payload,
                                       self.table)[::2])
                <= 8 << 20, 'size of the sections')
        for i, limit in enumerate(limits):
            size, stored = struct.unpack_from('<II', self.payload,
                                              self.table + 8 * i)
            data = self.payload[at:at + stored]
            at += stored
            require(stored <= size <= limit and len(data) == stored,
                    'size of a section')
            if i > n and not footprint:
                continue
            if size != stored:
                out = ctypes.create_string_buffer(size)
                require(ZSTD.ZSTD_decompress(out, size, data, stored) == size,
                        'zstd')
                data = out.raw
            yield Section(data)
        require(at == len(self.payload), 'length of the payload')

    def addresses(self, *sections):
        pairs = Path(*sections).decode(self.n_records)
        require(all(section.at_end() for section in sections),
                'bytes are left')
        return pairs

    def records(self, *sections):
        counts = None
        if self.has_counts():
            *sections, counts = sections
        *sections, flags = sections
        changes = {}
        position = 0
        while not flags.at_end():
            position += flags.varint()
            require(position not in changes and position < self.n_records,
                    'place of flags')
            changes[position] = flags.varint()
        value = 0
        pairs = self.addresses(*sections)
        count = Path.counts(pairs, counts) if counts else iter(lambda: 0, 1)
        for i, pair in enumerate(pairs):
            value = changes.get(i, value)
            yield (*pair, value + (next(count) << 16) & MASK)
        require(not counts or counts.at_end(), 'counts are left')

    def items(self):
        """The records and events, each with what is in force there:

        ('record', index, host clock, CR3, from, to, flags)
        ('event', index, host clock, CR3, type, reason, data[0] to data[2])
        """
        require(1 <= self.codec <= 8, 'codec')
        *sections, events = self.sections()
        records = self.records(*sections)
        index, left, cr3 = self.first, self.n_records, self.cr3
        time = list(self.time)
        first_time = time[0]
        items, spaces = [], []

        def take(n):
            nonlocal index, left
            require(n <= left, 'place of an event')
            left -= n
            for _ in range(n):
                items.append(('record', index, time[0], cr3, *next(records)))
                index += 1

        for distance, kind, reason, offset, *data in self.events(events):
            take(distance)
            if kind == GAP and data[0] != MASK:
                index += data[0]
                require(index <= MASK and offset == 0, 'index of a GAP')
            elif kind == TIME:
                time = data
                first_time = first_time or time[0]
            elif kind == CR3:
                space = space_of(data[0])
                if space != space_of(cr3) and space not in spaces:
                    spaces.append(space)
                cr3 = data[0]
            items.append(('event', index + offset & MASK, time[0], cr3, kind,
                          reason, *data))
        take(left)
        require(next(records, None) is None and events.at_end() and
                index == self.end, 'end of the chunk')
        require((first_time, time[0]) == (self.first_time, self.last_time),
                'first and last time')
        require(self.spaces == (tuple(spaces) if len(spaces) <= 64 else None),
                'address spaces')
        return items


    def footprint(self):
        """Flags, and runs of lines: the first and the last one"""
        require(self.has_footprint(), 'codec')
        *_, section = self.sections(True)
        data = section.data
        require(data[:4] == struct.pack('<I', crc32c(data[4:])),
                'checksum of the footprint')
        section = Section(data[4:])
        flags, runs, end = section.varint(), [], 0
        while not section.at_end():
            first = end + section.varint()
            end = first + section.varint() + 1
            runs.append((first, end - 1))
        return flags, runs


def icount(flags, time):
    """The instruction count of a record, given that of the TIME event"""
    if not flags >> 16 or time == MASK:
        return None
    more = (flags >> 16) - time & (1 << 48) - 1
    return time + more - (more >> 47 << 48) & MASK


def get_sideband(payload):
    """Kind, size and time of a SIDEBAND chunk"""
    require(len(payload) >= 16, 'a header of SIDEBAND is cut off')
    kind, size, time = struct.unpack_from('<HxxIQ', payload)
    require(size <= 16 << 20 and len(payload) - 16 <= size,
            'size of SIDEBAND')
    return kind, size, time


def no_kernel(pieces, tick):
    """A function: is no kernel known at a time, by ENDED?"""
    begins = [time for kind, time, _ in pieces if kind == SYMBOLS] or \
        [time for kind, time, _ in pieces if kind == PROCESSES]
    times = []
    for kind, time, data in pieces:
        if kind == ENDED:
            known = max(time, *struct.unpack_from('<Q', data)) \
                if len(data) >= 8 else time
            times.append((max(time - tick, 0),
                          min((t for t in begins if t > known),
                              default=1 << 64)))
    return lambda time: any(a < time < b for a, b in times)


def get_code(data):
    """Entries and contents of a CODE piece: a list and two dictionaries"""
    require(len(data) >= 16, 'a header of CODE is cut off')
    entries, same, contents = struct.unpack_from('<III', data)
    require(len(data) == 16 + entries * 48 + same * 16 + contents * 4104,
            'size of CODE')
    at = 16
    told = [struct.unpack_from('<II5Q', data, at + 48 * i)
            for i in range(entries)]
    at += 48 * entries
    alike = dict(struct.unpack_from('<QQ', data, at + 16 * i)
                 for i in range(same))
    at += 16 * same
    numbers = struct.unpack_from(f'<{contents}Q', data, at)
    at += 8 * contents
    pages = {n: data[at + 4096 * i:at + 4096 * i + 4096]
             for i, n in enumerate(numbers)}
    return told, alike, pages


class Trace:
    """A file: entries, as in the index, and pieces of description"""

    def __init__(self, data):
        self.data = data
        require(data[:12] == b'\xb7btrail\r\n\x1a\n\0' and
                data[60:64] == struct.pack('<I', crc32c(data[:60])),
                'this is no trace')
        require(data[12:20] == struct.pack('<II', 1, 64), 'version')
        self.part, self.begin, self.id, self.merged = struct.unpack_from(
            '<IHxx16sI', data, 20)
        self.continued = None
        try:
            self.entries = self.read_index()
            self.indexed = True
        except Damaged:
            self.entries = self.scan()
            self.indexed = False

    def chunk(self, at):
        """Type, sequence number and payload of a whole chunk or one that
        fits at least, with the checksum that the payload should have"""
        header = self.data[at:at + 32]
        require(len(header) == 32, 'end of the file')
        magic, kind, _, size, crc, sequence, _, header_crc = struct.unpack(
            '<4sHHIIQII', header)
        require(magic == b'\xb7btk' and header_crc == crc32c(header[:28]),
                'this is no chunk')
        require(size <= 64 << 20 and at + 32 + size <= len(self.data),
                'the payload is cut off')
        return kind, sequence, self.data[at + 32:at + 32 + size], crc

    def whole_chunk(self, at, kind):
        found, _, payload, crc = self.chunk(at)
        require(found == kind and crc == crc32c(payload), 'payload')
        return payload

    def read_index(self):
        trailer = len(self.data) - 56
        require(trailer >= 64, 'too short')
        payload = self.whole_chunk(trailer, END)
        require(len(payload) == 24, 'size of END')
        start, count, flags = struct.unpack('<QQQ', payload)
        entries, ends, at, limit = [], {}, start, 64
        require(at >= 64, 'place of the index')
        while at < trailer:
            payload = self.whole_chunk(at, INDEX)
            at += 32 + len(payload)
            require(at <= trailer and len(payload) <= 1 << 20,
                    'size of INDEX')
            entries += self.get_entries(payload)
        require(at == trailer and len(entries) == count, 'entries')
        for entry in entries:
            (offset, size, kind, vcpu, first, end, _, _, records, events, _,
             spaces) = entry
            require(limit <= offset and offset + 32 + size <= start and
                    kind in (META, DATA, SIDEBAND), 'an entry')
            limit = offset + 32 + size
            if kind == DATA:
                require(vcpu < 1024 and records <= 1 << 22 and
                        events <= 1 << 16 and 184 <= size <= 64 << 20,
                        'limits')
                require(first + records <= end and
                        ends.get(vcpu, 0) <= first, 'an entry of DATA')
                ends[vcpu] = end
            elif kind == META:
                require(not any(entry[3:]), 'an entry of META')
            else:
                require(entry[6] == entry[7] and not any(entry[4:6]) and
                        not any(entry[9:]) and size >= 16 and
                        size - 16 <= records <= 16 << 20,
                        'an entry of SIDEBAND')
        self.continued = bool(flags & 1)
        return entries

    @staticmethod
    def get_entries(payload):
        at = 0
        while at < len(payload):
            require(len(payload) - at >= 72, 'an entry is cut off')
            *entry, n, _ = struct.unpack_from('<QIHHQQQQIIQII', payload, at)
            spaces, at = get_spaces(payload, at + 72, n)
            yield (*entry, spaces)

    def scan(self):
        entries, ends, at = [], {}, 64
        while at < len(self.data):
            try:
                kind, _, payload, _ = self.chunk(at)
            except Damaged:
                at += 1
                continue
            try:
                if kind == META:
                    entries.append((at, len(payload), META, *[0] * 8, ()))
                elif kind == SIDEBAND:
                    what, size, time = get_sideband(payload)
                    entries.append((at, len(payload), SIDEBAND, what, 0, 0,
                                    time, time, size, 0, 0, ()))
                elif kind == DATA:
                    block = Block(payload)
                    require(ends.get(block.vcpu, 0) <= block.first, 'order')
                    ends[block.vcpu] = block.end
                    entries.append((at, len(payload), DATA,
                                    *block.summary()))
            except Damaged:
                pass
            at += 32 + len(payload)
        return entries

    def meta(self):
        """The pieces of description, merged"""
        merged = {}
        for at, size, kind, *_ in self.entries:
            if kind == META:
                try:
                    payload = self.whole_chunk(at, META)
                    require(size == len(payload) <= 1 << 20, 'size')
                    piece = json.loads(payload.decode())
                    require(isinstance(piece, dict), 'no object')
                    merged.update(piece)
                except (Damaged, ValueError, RecursionError):
                    continue
        return merged

    def sideband(self):
        """Kind, time and data of each piece that is sound"""
        pieces = []
        for at, size, kind, *entry in self.entries:
            if kind != SIDEBAND:
                continue
            try:
                payload = self.whole_chunk(at, SIDEBAND)
                what, raw, time = get_sideband(payload)
                require((len(payload), what, time, raw) ==
                        (size, entry[0], entry[3], entry[5]),
                        'not as the index says')
                data = payload[16:]
                if raw != len(data):
                    out = ctypes.create_string_buffer(raw)
                    require(ZSTD.ZSTD_decompress(out, raw, data, len(data)) ==
                            raw, 'zstd')
                    data = out.raw
                pieces.append((what, time, data))
            except Damaged:
                continue
        return pieces

    def vcpus(self):
        return sorted({e[3] for e in self.entries if e[2] == DATA})

    def block(self, at, size, kind, *entry):
        """The block that an entry speaks of, and its items"""
        payload = self.whole_chunk(at, kind)
        block = Block(payload)
        require(size == len(payload), 'size')
        want = block.summary()
        require(want[:-1] == tuple(entry[:-1]) and
                entry[-1] in (want[-1], None), 'not as the index says')
        return block, block.items()

    def stream(self, vcpu):
        return read_stream([self], vcpu)


def read_stream(files, vcpu):
    """The items of a stream, and how many of them fill holes of damage"""
    items, index, holes, damaged = [], 0, 0, 0
    pieces = []
    for f in files:
        entries = [e for e in f.entries if e[2] == DATA and e[3] == vcpu]
        if entries:
            pieces.append((entries[0][4], entries[-1][5], len(pieces), f,
                           entries))

    def fill(end, reason=CORRUPT):
        nonlocal index, holes
        if index < end:
            items.append(('event', end, None, None, GAP, reason,
                          end - index, 0, 0))
            index = end
            holes += reason == CORRUPT

    last = 0
    for first, last, _, f, entries in sorted(pieces):
        if f.begin:
            # The file reports what is missing here, except for damage before.
            fill(min(damaged, first))
            fill(first, f.begin)
        for entry in entries:
            try:
                block, more = f.block(*entry)
            except Damaged:
                damaged = entry[5]
                continue
            fill(block.first)
            items += more
            index = block.end
    fill(last)
    return items, holes


KINDS = {'cr3': CR3, 'time': TIME, 'gap': GAP, 'pause': PAUSE,
         'resume': RESUME, 'end': STREAM_END, 'task': TASK,
         'kernel': KERNEL, 'wake': WAKE}
NOT_PRODUCED = {'elsewhere': 256, 'cut': 256}
REASONS = {
    GAP: ['overflow', 'overwritten', 'agent-lost', 'reset', 'restored',
          'debugger', 'corrupt', 'producer-lost', 'guest-bts', 'nested',
          'smm', 'mode', 'address-space', 'unmapped', 'ept-fault',
          'buffer-full', 'spoilt', 'packets-lost', 'ring-full',
          'code-unreadable', 'code-changed', 'lost-way', 'not-traced'],
    PAUSE: ['overflow', 'vm-stop'],
    RESUME: ['overflow', 'vm-stop'],
    STREAM_END: ['stopped', 'shutdown', 'migrated', 'unplugged',
                 'producer-lost'],
}


def parse_line(line, start):
    """A line of backtrail script --json as (vCPU, item)"""
    o = json.loads(line, parse_float=decimal.Decimal)
    host = 0 if o['time'] is None else int(o['time'] * 10 ** 9) + start
    cr3 = cr3_of(o)
    if 'event' not in o:
        return o['vcpu'], ('record', o['index'], host, cr3,
                           int(o['from'], 16), int(o['to'], 16), o['flags'])
    kind, data = KINDS[o['event']], [0, 0, 0]
    reason = o.get('reason')
    if reason in NOT_PRODUCED:
        reason = NOT_PRODUCED[reason]
    else:
        reason = 1 + REASONS[kind].index(reason) if reason else 0
    if kind == CR3:
        data[0] = cr3
    elif kind == TIME:
        data = [o['host'], o['tsc'], o.get('icount', MASK)]
    elif kind == TASK:
        if o['tid'] is None:
            reason = UNKNOWN_TASK
        else:
            reason = KERNEL_TASK if o['kernel'] else 0
            reason |= LEFT[o['left']] if 'left' in o else 0
            data = [o['tid'] | o['pid'] << 32, o['comm'], 0]
    elif kind == WAKE:
        reason = NEW_WAKE if o['new'] else 0
        if o['tid'] is None:
            reason |= UNKNOWN_WAKE
        else:
            reason |= KERNEL_WAKE if o['kernel'] else 0
            data[0] = o['tid'] | o['pid'] << 32
    elif kind == KERNEL:
        if o['number'] is None:
            reason = UNKNOWN_KERNEL
        else:
            reason = NESTED if o['nested'] else 0
            data = [o['number'], int(o.get('root', '0'), 16), 0]
    elif kind == GAP:
        data = [MASK if o['lost'] is None else o['lost'], o.get('bytes', 0), 0]
    else:
        data[0] = o['host']
    return o['vcpu'], ('event', o['index'], host, cr3, kind, reason, *data)


def task_name(low, high):
    """As JSON has it"""
    name = struct.pack('<QQ', low, high).split(b'\0')[0]
    return name.decode(errors='replace')


def without_state(item):
    """What is in force in a hole is not known: leave it out.  So are counts,
    of which script prints more than the record has."""
    if item[0] == 'record':
        return (*item[:6], item[6] & 0xFFFF)
    if item[0] == 'event' and item[4] == TASK and item[5] != UNKNOWN_TASK:
        _, name, high = item[6:]
        if not isinstance(name, str):
            return (*item[:7], task_name(name, high), 0)
    if item[0] == 'event' and item[4] == GAP and item[5] in (
            CORRUPT, NOT_PRODUCED['elsewhere'], OVERWRITTEN, AGENT_LOST):
        return (*item[:2], None, None, *item[4:])
    return item


def script(backtrail, paths, start, codes):
    """The items that backtrail script prints: {vCPU: items}"""
    out = subprocess.run([backtrail, 'script', '--events', '--json', *paths],
                         capture_output=True, timeout=60)
    if out.returncode not in codes:
        raise AssertionError(f'exit code {out.returncode}: {out.stderr}')
    return parse_script(out.stdout, start)


def parse_script(out, start):
    """The same of what it has printed"""
    streams = {}
    for line in out.splitlines():
        vcpu, item = parse_line(line, start)
        streams.setdefault(vcpu, []).append(item)
    return streams
