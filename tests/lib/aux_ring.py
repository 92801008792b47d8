# SPDX-License-Identifier: GPL-2.0-or-later
"""A ring of Intel PT, written as the kernel does"""

import fcntl
import mmap
import os
import struct

PAGE = 4096
DATA = 64 * PAGE
AUX = 11                        # PERF_RECORD_AUX
TRUNCATED = 1                   # PERF_AUX_FLAG_TRUNCATED
# Of struct perf_event_mmap_page
DATA_HEAD, DATA_OFFSET, AUX_HEAD = 0x400, 0x410, 0x420


class Ring:
    """What the kernel maps of an event, in a memfd"""

    def __init__(self, size):
        self.size = size
        self.fd = os.memfd_create('ring', os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, PAGE + DATA + size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.map = mmap.mmap(self.fd, PAGE + DATA + size)
        self.words = memoryview(self.map)[:PAGE].cast('Q')
        self.put(DATA_OFFSET, PAGE)
        self.put(DATA_OFFSET + 8, DATA)
        self.put(AUX_HEAD + 16, PAGE + DATA)
        self.put(AUX_HEAD + 24, size)
        self.head = self.truncated = self.lost = 0

    def close(self):
        self.words.release()
        self.map.close()
        os.close(self.fd)

    def put(self, offset, value):
        self.words[offset // 8] = value

    def get(self, offset):
        return self.words[offset // 8]

    def path(self):
        return f'/proc/{os.getpid()}/fd/{self.fd}'

    def waiting(self):
        return self.head - self.get(AUX_HEAD + 8)

    def copy(self, base, size, at, data):
        first = min(len(data), size - at % size)
        self.map[base + at % size:base + at % size + first] = data[:first]
        self.map[base:base + len(data) - first] = data[first:]

    def write(self, data, ns):
        """Packets that were executed until a time; false if there is no room
        for all"""
        room = self.size - self.waiting()
        flags = TRUNCATED if len(data) > room else 0
        self.lost += max(len(data) - room, 0)
        self.truncated += flags
        data = data[:room]
        self.copy(PAGE + DATA, self.size, self.head, data)
        record = struct.pack('<IHHQQQQ', AUX, 0, 40, self.head, len(data),
                             flags, ns)
        at = self.get(DATA_HEAD)
        self.copy(PAGE, DATA, at, record)
        self.put(DATA_HEAD, at + len(record))
        self.head += len(data)
        self.put(AUX_HEAD, self.head)
        return not flags
