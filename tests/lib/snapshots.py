# SPDX-License-Identifier: GPL-2.0-or-later
"""The snapshots of a guest's processes in a trace, as docs/trace-format.md says"""

import collections

import traceformat

PROCESSES = 3

Thread = collections.namedtuple('Thread', 'pid tid comm vcpu')


class _Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self):
        n = self.varint()
        self.at += n
        return self.data[self.at - n:self.at].decode('latin-1')


def threads(path):
    """Each Thread that a snapshot found, once for each vCPU that ran it; -1 if
    it is not known which one did, or none did"""
    found = set()
    with open(path, 'rb') as f:
        trace = traceformat.Trace(f.read())
    for kind, _, data in trace.sideband():
        if kind == PROCESSES:
            found |= _threads(_Reader(data))
    return found


def _threads(r):
    found = set()
    for _ in range(3):                  # flags, end, took
        r.varint()
    strings = [r.text() for _ in range(r.varint())]
    for _ in range(r.varint()):
        _, _, _, _, _, _, _, pid, _, _, _, _ = (r.varint() for _ in range(12))
        tid = 0
        for _ in range(r.varint()):
            tid += r.varint()
            vcpu = r.varint() - 1
            r.varint()
            found.add(Thread(pid, tid, strings[r.varint()], vcpu))
        for _ in range(r.varint()):     # mappings
            for _ in range(6):
                r.varint()
    return found
