# SPDX-License-Identifier: GPL-2.0-or-later
"""When vCPUs were paused, by the events of a trace.

It shares no code with host-agent/analyze/: it is made of what
docs/trace-format.md and backtrail(1) say of pauses.
"""

import collections

from traceformat import GAP, PAUSE, RESUME, STREAM_END, TASK

import times

STOP = 2

# In ns of the host's clock; tid: of the task that has made the last record
# before, or None; stop: of the whole guest
Pause = collections.namedtuple('Pause', 'begin end tid stop')


def of_stream(items):
    """The pauses of a vCPU, of each reason, and how many are not known"""
    pauses, unknown = [], 0
    since, task, tid, clocks = {}, None, None, False
    for item in items:
        if item[0] == 'record':
            tid = task
            continue
        kind, reason, data = item[4:7]
        if kind == TASK:
            task = None if reason & 2 else data & 0xffffffff
        elif kind == GAP and data:
            unknown += 1
            since = {}
        elif kind == PAUSE:
            since[reason] = data
        elif kind == RESUME and reason not in since:
            unknown += clocks
        elif kind == RESUME:
            pauses.append(Pause(since.pop(reason), data, tid, reason == STOP))
        elif kind == STREAM_END:
            pauses += [Pause(begin, data, tid, r == STOP)
                       for r, begin in since.items()]
            since = {}
        clocks |= kind in (2, PAUSE, RESUME)
    return pauses, unknown + len(since)


class Pauses:
    """streams: {vCPU: items of traceformat}.  vcpus: how many the guest has"""

    def __init__(self, streams, tick, vcpus):
        read = {vcpu: of_stream(items) for vcpu, items in streams.items()}
        self.vcpus = {vcpu: pauses for vcpu, (pauses, _) in read.items()}
        self.unknown = sum(unknown for _, unknown in read.values())
        lanes = times.Times(streams, tick).lanes
        self.stands = {vcpu: [p[:2] for p in pauses] + [
            (p.begin, p.end) for p in lanes[vcpu] if not p.n]
            for vcpu, pauses in self.vcpus.items()}
        self.all_known = len(streams) == vcpus

    def sums(self, begin, end, tid=None):
        """(paused, held) ns between two times: in which the thread, or the
        whole guest, was paused; and in which only other vCPUs were"""
        inside = [t for stands in self.stands.values() for pair in stands
                  for t in pair if begin < t < end]
        edges = sorted({begin, *inside, end})
        paused = held = 0
        for a, b in zip(edges, edges[1:]):
            middle = (a + b) / 2
            now = [p for pauses in self.vcpus.values() for p in pauses
                   if p.begin <= middle < p.end]
            stands = self.all_known and all(
                any(x <= middle < y for x, y in pairs)
                for pairs in self.stands.values())
            if now and (stands or any(p.stop for p in now) or
                        tid is not None and any(p.tid == tid for p in now)):
                paused += b - a
            elif now:
                held += b - a
        return paused, held

    def vcpu(self, vcpu):
        """(how many, ns): those that overlap are one"""
        n = ns = 0
        until = 0
        for p in sorted(self.vcpus[vcpu]):
            n += p.begin > until
            ns += max(p.end - max(p.begin, until), 0)
            until = max(until, p.end)
        return n, ns
