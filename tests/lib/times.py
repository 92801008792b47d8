# SPDX-License-Identifier: GPL-2.0-or-later
"""Which task had which time, by the records and events of a trace.

It shares no code with host-agent/analyze/: it is made of what
backtrail-flamegraph(1) says of time, and of docs/trace-format.md.
"""

import collections

from traceformat import GAP, PAUSE, RESUME, STREAM_END, TASK, TIME, task_name

DEFAULT_TICK = 1000000

# From begin to end, in ns of the host's clock, a vCPU made a record, or waited
# after one.  clock is that of the last TIME event before the record.
Piece = collections.namedtuple('Piece', 'vcpu index task begin end clock waits')


class Lane:
    """The pieces of a vCPU, made of its items"""

    def __init__(self, vcpu, items, tick):
        self.vcpu, self.limit = vcpu, 2 * (tick or DEFAULT_TICK)
        self.pieces = []
        self.clock = None               # of the last TIME event
        self.group = []                 # records since: index and task
        self.last = None                # the last record, if none is missing
        self.paused, self.pause = 0, None
        self.each = 0                   # the time of a record
        self.task = None
        for item in items:
            if item[0] == 'record':
                self.last = item[1], self.task
                self.group.append(self.last)
            else:
                self.event(*item[4:])
        # What comes after the last clock is as quick as what was before it.
        if self.clock:
            self.put(self.each)

    def event(self, kind, _reason, data, *more):
        if kind == TASK:
            self.task = task_name(*more)
        elif kind == GAP:
            self.last = None
        elif kind == PAUSE:
            self.pause = data
        elif kind == RESUME and self.pause:
            self.paused += max(data - self.pause, 0)
            self.pause = None
        elif kind in (TIME, STREAM_END) and data:
            self.clocked(data)

    def clocked(self, clock):
        if self.clock is None:
            # Nobody knows how long it took up to here.
            self.group, self.clock, self.paused = [], clock, 0
            return
        took = max(clock - self.clock - self.paused, 0)
        busy = min(took, self.limit) if self.group else 0
        if self.group:
            self.each = busy / len(self.group)
        before = self.clock
        self.put(self.each)
        if took > busy and self.last:
            self.pieces.append(Piece(self.vcpu, *self.last,
                                     clock - (took - busy), clock, before,
                                     True))
        self.clock, self.paused = clock, 0

    def put(self, each):
        for i, (index, task) in enumerate(self.group):
            begin = self.clock + i * each
            self.pieces.append(Piece(self.vcpu, index, task, begin,
                                     begin + each, self.clock, False))
        self.group = []


class Times:
    """The pieces of all vCPUs.  streams: {vCPU: items of traceformat}"""

    def __init__(self, streams, tick):
        self.lanes = {vcpu: Lane(vcpu, items, tick).pieces
                      for vcpu, items in streams.items()}

    def begun(self, vcpu, index):
        """When a record has begun"""
        return next(p.begin for p in self.lanes[vcpu]
                    if p.index == index and not p.waits)

    def sums(self, begin=0, end=1 << 64, by_clock=False):
        """{(vCPU, task): ns} between two times; by_clock: of the records of
        which the clocks before them are, and of all waits"""
        sums = collections.Counter()
        for pieces in self.lanes.values():
            for p in pieces:
                if by_clock and not p.waits and not begin <= p.clock < end:
                    continue
                sums[p.vcpu, p.task] += max(
                    min(p.end, end) - max(p.begin, begin), 0)
        return sums
