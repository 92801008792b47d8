# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest's kernel says by its own tracer of who waited, for how long, and
who woke whom.

It shares no code with host-agent/: it is made of the tracer's text alone.
"""

import bisect
import collections
import re

# What the tracer is to say; trace_marker tells it of spans, "NAME BEGIN END".
EVENTS = ('sched/sched_switch', 'sched/sched_waking',
          'sched/sched_wakeup_new', 'irq/irq_handler_entry',
          'irq/irq_handler_exit', 'irq/softirq_entry', 'irq/softirq_exit',
          'irq_vectors/local_timer_entry', 'irq_vectors/local_timer_exit')
LINE = re.compile(r' *(?P<comm>.*)-(?P<tid>\d+) +\[(?P<cpu>\d+)\] '
                  r'(?P<flags>\S+) +(?P<time>\d+): (?P<event>\w+): ?'
                  r'(?P<rest>.*)')
SWITCH = re.compile(r'prev_comm=(.*) prev_pid=(\d+) prev_prio=\d+ '
                    r'prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) .*')
WAKE = re.compile(r'comm=(.*) pid=(\d+) prio=\d+ target_cpu=\d+')

RUNNING, RUNNABLE, BLOCKED, UNKNOWN = ('running', 'runnable', 'blocked',
                                       'unknown')
FOREVER = 1 << 64
# ns between the tracer's clock and what the trace says of the same
NEAR = 50000

# Of a task, between two times.  vcpu: where it runs, or has run before.  by:
# the Waker that ends a wait, or None
Part = collections.namedtuple('Part', 'tid state begin end vcpu by')
# tid: of the task that ran; interrupt: its name, if that has woken, or None
Waker = collections.namedtuple('Waker', 'tid interrupt vcpu time')
# Between two marks of a task; number: of those of this name
Span = collections.namedtuple('Span', 'name number tid begin end')


class Clocks:
    """The host's clock and the guest's TSC, by TIME events of a trace as script
    --json prints them"""

    def __init__(self, events):
        self.times = collections.defaultdict(list)      # by vCPU
        for e in events:
            if e['event'] == 'time':
                self.times[e['vcpu']].append(e['host'])
        first, last = (pick((e for e in events if e['event'] == 'time'),
                            key=lambda e: e['host']) for pick in (min, max))
        self.start = last['host'] - round(last['time'] * 1e9)
        self.scale = (last['host'] - first['host']) / (
            last['tsc'] - first['tsc'])
        self.host, self.tsc = first['host'], first['tsc']

    def of_tsc(self, tsc):
        return self.host + (tsc - self.tsc) * self.scale

    def around(self, vcpu, time):
        """The times next to this one that are exact"""
        times = self.times[vcpu]
        at = bisect.bisect_right(times, time)
        return times[max(at - 1, 0)], times[min(at, len(times) - 1)]


class Task:
    """Its parts, in order, as they become known"""

    def __init__(self, tid, since):
        self.tid = tid
        self.parts = []
        self.begins = []
        self.state, self.since, self.vcpu = UNKNOWN, since, None
        self.woken = None       # by whom, since it runs

    def become(self, state, time, vcpu=None, by=None):
        if time > self.since:
            self.add(self.state, self.since, time, by)
        self.state, self.since, self.vcpu = state, time, vcpu

    def add(self, state, begin, end, by):
        self.parts.append(Part(self.tid, state, begin, end, self.vcpu, by))
        self.begins.append(begin)

    def between(self, begin, end):
        """Its parts, cut at both ends"""
        at = max(bisect.bisect_right(self.begins, begin) - 1, 0)
        while at < len(self.parts) and self.parts[at].begin < end:
            p = self.parts[at]
            at += 1
            if p.end > begin:
                yield p._replace(begin=max(p.begin, begin),
                                 end=min(p.end, end),
                                 by=p.by if p.end <= end else None)


class Account:
    """Of a text of the tracer, whose clock is the TSC.  clock makes times of
    that."""

    def __init__(self, text, clock):
        self.tasks = {}
        self.names = {}                 # of threads, the last ones
        self.spans = []
        self.wakes = 0
        self.interrupts = []            # (begin, vCPU, name)
        self._counts = collections.Counter()            # of spans
        self._inside = collections.defaultdict(list)    # interrupts, by vCPU
        lines = [m for m in map(self._match, text.splitlines()) if m]
        # The tracer prints in the order of time, per CPU.
        lines.sort(key=lambda m: int(m['time']))
        self.first = clock(int(lines[0]['time']))
        for m in lines:
            self._add(m, clock)
        self.last = clock(int(lines[-1]['time']))
        for task in self.tasks.values():
            task.become(UNKNOWN, self.last + 1)

    @staticmethod
    def _match(line):
        if not line or line.startswith('#'):
            return None
        m = LINE.fullmatch(line)
        if not m:
            raise ValueError(f'no event: {line}')
        return m

    def _task(self, tid, cpu):
        # Each CPU has an idle task of its own, all with one number.
        key = tid or -1 - cpu
        if key not in self.tasks:
            self.tasks[key] = Task(key, self.first)
        return self.tasks[key]

    def _add(self, m, clock):
        now = clock(int(m['time']))
        cpu, tid, event = int(m['cpu']), int(m['tid']), m['event']
        if event == 'sched_switch':
            comm, before, word, name, after = SWITCH.fullmatch(
                m['rest']).groups()
            self.names[int(before)] = comm
            self.names[int(after)] = name
            self._switch(cpu, int(before), word, int(after), now)
        elif event in ('sched_waking', 'sched_wakeup_new'):
            self._wake(m, now)
        elif event == 'tracing_mark_write':
            name, begin, end = m['rest'].split()
            self.spans.append(Span(name, self._counts[name], tid,
                                   clock(int(begin)), clock(int(end))))
            self._counts[name] += 1
        else:
            self._interrupt(cpu, event, m['rest'], now)

    def _switch(self, cpu, before, word, after, now):
        task = self._task(before, cpu)
        if word.endswith('+') or word.startswith('R'):
            task.become(RUNNABLE, now, cpu)
        elif word[0] in 'XZ':
            task.become('dead', now, cpu)
        else:
            task.become(BLOCKED, now, cpu)
        task = self._task(after, cpu)
        if task.state == BLOCKED and task.woken:
            # By another CPU, before it had left: it waited only for a CPU.
            task.add(BLOCKED, task.since, task.since, task.woken)
            task.state = RUNNABLE
        task.woken = None
        task.become(RUNNING, now, cpu)

    def _wake(self, m, now):
        cpu, tid = int(m['cpu']), int(m['tid'])
        name, woken = WAKE.match(m['rest']).groups()
        self.names[int(woken)] = name
        self.wakes += 1
        interrupt = None
        # irqs-off, need-resched, hardirq/softirq, …
        if m['flags'][2] in 'hHsZz':
            inside = self._inside[cpu]
            interrupt = inside[-1] if inside else m['flags'][2]
        by = Waker(tid or -1 - cpu, interrupt, cpu, now)
        task = self._task(int(woken), cpu)
        if m['event'] == 'sched_wakeup_new' or task.state in (BLOCKED,
                                                              UNKNOWN):
            if task.state == UNKNOWN and m['event'] != 'sched_wakeup_new':
                # It was blocked for some time.
                task.state = BLOCKED
            task.become(RUNNABLE, now, task.vcpu, by)
        elif task.state == RUNNING:
            task.woken = by

    def _interrupt(self, cpu, event, rest, now):
        inside = self._inside[cpu]
        if event.endswith('_exit'):
            # What the tracer has begun with can be inside of one.
            if inside:
                inside.pop()
            return
        name = 'timer'
        if event != 'local_timer_entry':
            name = re.search(r'(?:name|action)=([^\s\]]+)', rest)[1]
        inside.append(name)
        self.interrupts.append((now, cpu, name))

    # What became of a span

    def sums(self, tid, begin, end):
        """{state: how long}"""
        sums = collections.Counter()
        for p in self.tasks[tid].between(begin, end):
            sums[p.state] += p.end - p.begin
        return sums

    def waits(self, tid, begin, end):
        """The parts in which it was blocked until it was woken; of those that
        have no length, it was woken before it had left"""
        return [p for p in self.tasks[tid].between(begin, end)
                if p.state == BLOCKED and p.by]

    def instead(self, tid, begin, end):
        """{tid: how long it ran on the vCPU for which this one waited}"""
        sums = collections.Counter()
        parts = list(self.tasks[tid].between(begin, FOREVER))
        for p, after in zip(parts, parts[1:]):
            if p.begin >= end:
                break
            if p.state != RUNNABLE or after.state != RUNNING:
                continue
            for other, task in self.tasks.items():
                for q in task.between(p.begin, min(p.end, end)):
                    if q.state == RUNNING and q.vcpu == after.vcpu:
                        sums[other] += q.end - q.begin
        return sums

    def inside(self, name, span):
        """How many interrupts of this name the vCPUs of a span had while it
        ran"""
        parts = [p for p in self.tasks[span.tid].between(span.begin, span.end)
                 if p.state == RUNNING]
        return sum(n == name and any(p.vcpu == vcpu and p.begin <= at < p.end
                                     for p in parts)
                   for at, vcpu, n in self.interrupts)

    def error(self, parts, clocks):
        """For how long it is not known when these parts began and ended, in a
        trace with these clocks"""
        ends = set()
        for p in parts:
            if p.vcpu is not None:
                ends.add((p.vcpu, p.begin))
            if p.state == RUNNING:
                ends.add((p.vcpu, p.end))
            elif p.by:
                ends.add((p.by.vcpu, p.by.time))
        return sum(self._gap(clocks, *end) for end in ends)

    def _gap(self, clocks, vcpu, time):
        """Between two times that are exact.  The tracer and the trace say when
        something was some instructions apart, so what is near one of these
        times may be on its other side."""
        since, until = clocks.around(vcpu, time)
        gap = self._busy(vcpu, since, until, time)
        if time - since < NEAR:
            before, _ = clocks.around(vcpu, since - 1)
            gap += self._busy(vcpu, before, since, before)
        if until - time < NEAR:
            _, after = clocks.around(vcpu, until)
            gap += self._busy(vcpu, until, after, until)
        return gap

    def _busy(self, vcpu, since, until, time):
        """But not the time, after this one, that the vCPU was idle before the
        second one"""
        idle = self.tasks.get(-1 - vcpu)
        for p in idle.between(since, until) if idle else ():
            if p.state == RUNNING and time <= p.begin and p.end == until:
                until = p.begin
        return until - since

    def path(self, tid, begin, end):
        """[Part] from begin to end: of who was the cause.  While a task is
        blocked until another one wakes it, that is what the other one does."""
        path = []
        for p in self.tasks[tid].between(begin, end):
            if p.state == BLOCKED and p.by and not p.by.interrupt and \
                    p.end > p.begin:
                path += self.path(p.by.tid, p.begin, p.end)
            else:
                path.append(p)
        return path
