# SPDX-License-Identifier: GPL-2.0-or-later
"""Which task had which time, by the records and events of a trace.

It shares no code with host-agent/analyze/: it is made of what
backtrail-flamegraph(1) says of time, and of docs/trace-format.md.
"""

import collections

from traceformat import (GAP, KERNEL, PAUSE, RESUME, STREAM_END, TASK, TIME,
                         UNKNOWN_TASK, task_name)

DEFAULT_TICK = 1000000

# From begin to end, in ns of the host's clock, a vCPU made n records, or waited
# after the one before first.  clock is that of the last TIME event before.
Piece = collections.namedtuple('Piece', 'first n task begin end clock')


class Task(str):
    """A task by its name; tid: its number"""

    def __new__(cls, data, *name):
        task = super().__new__(cls, task_name(*name))
        task.tid = data & 0xffffffff
        return task

    def same(self, other):
        return other is not None and self.tid == other.tid


class Lane:
    """The pieces of a vCPU, made of its items"""

    def __init__(self, items, tick):
        self.limit = 2 * (tick or DEFAULT_TICK)
        self.pieces = []
        self.clock = None               # of the last event that has one
        self.time = None                # of the last TIME event
        self.runs = []                  # records since: first, number, task
        self.next = None                # the index after the last record
        self.task = self.by = None      # that runs; that made the last record
        self.paused = set()             # the reasons for which it does not run
        self.each = 0                   # the time of a record
        for item in items:
            if item[0] == 'record':
                self.record(item[1])
            else:
                self.event(*item[4:])
        # What comes after the last clock is as quick as what was before it.
        if self.clock:
            self.put()

    def record(self, index):
        if self.runs and index == self.next and (
                self.by is self.task or self.task and self.task.same(self.by)):
            self.runs[-1][1] += 1
        else:
            self.runs.append([index, 1, self.task])
        self.next, self.by = index + 1, self.task

    def event(self, kind, reason, data, *more):
        if kind == TASK:
            self.task = None if reason == UNKNOWN_TASK else Task(data, *more)
        elif kind == KERNEL:
            self.task = None
        elif kind == GAP:
            self.next = None
            if data:
                self.paused = set()
        elif kind in (TIME, STREAM_END, PAUSE, RESUME) and data:
            self.clocked(data)
            if kind == TIME:
                self.time = data
            elif kind == PAUSE:
                self.paused.add(reason)
            elif kind == RESUME:
                self.paused.discard(reason)

    def clocked(self, clock):
        if self.clock is None:
            # Nobody knows how long it took up to here.
            self.runs, self.clock, self.time = [], clock, clock
            return
        took = 0 if self.paused else max(clock - self.clock, 0)
        n = sum(run[1] for run in self.runs)
        busy = min(took, self.limit) if n else 0
        each = self.each
        if n:
            self.each = busy / n
        self.put()
        if self.paused:
            # What it still makes then says nothing of how quick it is.
            self.each = each
        if took > busy and self.next is not None:
            self.pieces.append(Piece(self.next, 0, self.by,
                                     clock - (took - busy), clock, self.time))
        self.clock = clock

    def put(self):
        begin = self.clock
        for first, n, task in self.runs:
            self.pieces.append(Piece(first, n, task, begin,
                                     begin + n * self.each, self.time))
            begin += n * self.each
        self.runs = []


class Times:
    """The pieces of all vCPUs.  streams: {vCPU: items of traceformat}"""

    def __init__(self, streams, tick):
        self.lanes = {vcpu: Lane(items, tick).pieces
                      for vcpu, items in streams.items()}

    def begun(self, vcpu, index):
        """When a record has begun"""
        piece = next(p for p in self.lanes[vcpu]
                     if p.first <= index < p.first + p.n)
        return piece.begin + (piece.end - piece.begin) * (
            index - piece.first) / piece.n

    def sums(self, begin=0, end=1 << 64, by_clock=False,
             paused=lambda begin, end: 0):
        """{(vCPU, task): ns} between two times; by_clock: of the records of
        which the clocks before them are, and of all waits; of these without
        what paused() says of a time"""
        sums = collections.Counter()
        for vcpu, pieces in self.lanes.items():
            for p in pieces:
                if by_clock and p.n and not begin <= p.clock < end:
                    continue
                first, last = max(p.begin, begin), min(p.end, end)
                if first < last:
                    sums[vcpu, p.task] += last - first - (
                        0 if p.n else paused(first, last))
        return sums

    def by_thread(self, *args):
        """{number of a thread: ns} as sums() has it; None: of unknown ones"""
        sums = collections.Counter()
        for (_, task), ns in self.sums(*args).items():
            sums[getattr(task, 'tid', None)] += ns
        return sums

    def waits(self, begin=0, end=1 << 64):
        """([(vCPU, task, when it left, when it came back)], {number of a
        thread: its last piece}): tasks that did not run, from their last
        record before that of another one to their next one, on that vCPU, if
        the clock before that is not past the end"""
        found = []
        pieces = sorted((p.begin, vcpu, i, p)
                        for vcpu, lane in self.lanes.items()
                        for i, p in enumerate(p for p in lane if p.n))
        left = {}
        for _, vcpu, i, p in pieces:
            if p.clock >= end:
                continue
            tid = getattr(p.task, 'tid', None)
            if tid is None:
                # It can be any of those that are away.
                left = {}
                continue
            was, where, at = left.get(tid, (p, vcpu, i - 1))
            if tid and (where, at) != (vcpu, i - 1):
                found.append((vcpu, p.task, was.end, max(p.begin, was.end)))
            left[tid] = p, vcpu, i
        return found, {tid: p for tid, (p, _, _) in left.items() if tid}

    def away(self, begin=0, end=1 << 64, paused=lambda begin, end: 0):
        """({(vCPU, task): ns} of waits(); {task: ns} of those that have not
        come back by then), without what paused() says of a time"""
        sums, rest = collections.Counter(), collections.Counter()
        found, left = self.waits(begin, end)
        latest = min(max(p.end for lane in self.lanes.values() for p in lane),
                     end)
        for vcpu, task, since, until in found:
            since = max(since, begin)
            if since < until:
                sums[vcpu, task] += until - since - paused(since, until)
        for p in left.values():
            since = max(p.end, begin)
            if since < latest:
                rest[p.task] += latest - since - paused(since, latest)
        return sums, rest
