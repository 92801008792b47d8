# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces with wrong contents, read by all commands.

Whatever is in a file, a command ends by itself and in time, with a status that
its man page has, prints nothing that controls a terminal, and JSON that is
JSON.  What the reader of tests/lib/traceformat.py makes of a file is what
backtrail script prints.  In a trace that was repaired nothing is missing.
"""

import decimal
import glob
import itertools
import json
import os
import shutil
import struct
import subprocess

import campaign
import grow
import hostile
import mutate
import qemu
import traceformat
import warm
from traceformat import (CR3, DATA, GAP, KERNEL, KERNEL_TASK, KERNEL_WAKE, MASK,
                         NESTED, NEW_WAKE, STREAM_END, TASK, TIME, UNKNOWN_KERNEL,
                         UNKNOWN_TASK, UNKNOWN_WAKE, WAKE)

CPU = 120                       # seconds, of a command with sanitizers
MEMORY = 2500                   # MiB, the same
OUTPUT = 64 << 20               # bytes
COMPARED = 200000               # items for the reader in Python, at most

SAMPLES = ('3', '20', '20+sideband', 'large', 'code', 'threads', 'tree',
           'marks', 'syscalls', 'mapped:abcdef0123456789')
NAMES = ('init', 'sh\x1b[31m', 'a;b', 'x\ny')

# What is read of each trace; 2 is for vCPUs that it does not have.
READ = (
    ('info',), ('info', '--json'), ('verify',), ('verify', '--json'),
    ('report',), ('report', '--json'), ('report', '--json', '--min-share=0'),
    ('report', '--sort=comm,pid,tid,dso,sym'),
    ('report', '--sort=edge,cpu', '--json'), ('report', '--children'),
    ('report', '--children', '--json'), ('report', '--syscalls'),
    ('report', '--syscalls', '--json'), ('report', '--filter', 'user'),
    ('report', '--call-graph', '--json'), ('report', '--time', '0.0001..5'),
    ('script', '--events'), ('script', '--events-only', '--json'),
    ('script', '--names'), ('script', '--insn'), ('script', '--names',
                                                  '--json', '--events'),
    ('script', '--raw', '--vcpu', '0'), ('script', '--index', '10..40'),
    ('script', '--time', '0.0001..5'), ('script', '--cr3', '0x1000'),
    ('script', '--filter', 'comm == sh || kernel'),
    ('calls',), ('calls', '--json'), ('calls', '--syscalls'),
    ('find', '*0x1010'), ('find', '--last', '*0x2000', '--json'),
    ('find', '--count', 'switch'), ('find', '1.5s'), ('find', '@30', '--json'),
    ('find', '--count', '--between', '@10', '@40', '*0x1000'),
    ('find', '--limit=100', 'switch', '--json'), ('find', 'syscall'),
    ('find', '--count', '--while', 'cpu 0: in do_exit', 'exception'),
    ('annotate', '0x1000..0x5000'), ('annotate', '--json', '0..0x40000'),
    ('export', '-f', 'folded'), ('export', '-f', 'folded', '--by-time'),
    ('export', '-f', 'perf'), ('export', '-f', 'perfetto'),
    ('export', '-f', 'lcov'), ('flamegraph',), ('repair', '--dry-run'),
    ('repair', '--dry-run', '--json'),
    ('report', '--marks'), ('report', '--marks', '--json'),
    ('report', '--spans', '--between', 'mark:a', 'mark:b'),
    ('report', '--spans', '--between', 'vfs_read', '*0x1000', '--json'),
    ('report', '--between', '--pair=any', 'mark:request', 'mark:reply'),
    ('report', '--missing'), ('report', '--missing', '--json'),
    ('report', '--callers=vfs_read'), ('report', '--callees=b', '--json'),
    ('find', 'mark:request'), ('find', '--count', 'mark:a'),
    ('find', '--callers-of', 'vfs_read'), ('find', 'last exit of sh'),
    ('find', '--last', 'interrupt 32'), ('find', 'init:vfs_read', '--json'),
    ('find', '--count', 'switch to init'), ('find', 'panic'),
    ('find', '--nth=-2', '--no-stack', 'do_exit'),
    ('annotate', 'vfs_read'), ('annotate', '--json', 'do_syscall_64'),
    ('calls', '--function=vfs_read', '--depth=3'),
    ('calls', '--filter', 'comm == init && sym ~ ^v'),
    ('calls', '--summary'), ('calls', '--summary', '--histogram', '--sort=p95'),
    ('calls', '--summary', '--json', '--syscalls'),
    ('calls', '--between', 'mark:a', 'mark:b', '--json'),
    ('report', '--tasks'), ('report', '--tasks', '--json', '--sort=off'),
    ('report', '--tasks', '--histogram', '--time', '0.0001..5'),
    ('report', '--syscalls', '--histogram', '--sort=max'),
    ('script', '--between', '@10', '@40', '--events'),
    ('flamegraph', '--between', 'vfs_read', '*0x1000'),
    ('script', '--lines'), ('script', '--icount', '--events'),
    ('why', '--between', 'switch', 'switch'), ('why', '@30', '--json'),
    ('why', '--between', '@10', '@40', '--json'), ('why', '--boot'),
    ('why', '--between', 'mark:a', 'mark:b', '--slowest=9'),
    ('why', '--process', '1', '--json'), ('why', 'vfs_read'),
    ('why', '--syscall', 'read', '--json'),
    ('export', '-f', 'perfetto', '--between', 'mark:a', 'mark:b'),
    ('flamegraph', '--min-share=0'),
)
BINARY = ('--raw', 'perfetto')

# Reasons of a GAP in which it is not known what is in force, and others
UNSTATED_NAMES = 'overwritten', 'agent-lost', 'corrupt', 'elsewhere'
UNSTATED = 2, 3, 7, 256
OTHERS = {(GAP, 256): 'elsewhere', (STREAM_END, 256): 'cut'}

SANITIZED = {
    'ASAN_OPTIONS': 'abort_on_error=0:exitcode=99:'
    'allocator_may_return_null=1',
    'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1:exitcode=99',
}


def build():
    """The folder of the build to try: with sanitizers, if there is one"""
    folders = [os.environ.get('BACKTRAIL_BUILD'),
               os.path.join(qemu.TOP, 'build-sanitize'),
               os.path.join(qemu.TOP, 'build')]
    for folder in filter(None, folders):
        if os.access(os.path.join(folder, 'host-agent', 'cli', 'backtrail'),
                     os.X_OK):
            return folder
    raise campaign.Skip('backtrail is not built')


class Part(campaign.Part):
    name = 'traces'
    parallel = True
    samples = SAMPLES
    leaks = 0.1                 # of commands: the share that is searched

    def begin(self):
        if not traceformat.ZSTD:
            raise campaign.Skip('libzstd.so is not installed')
        folder = build()
        self.backtrail = os.path.join(folder, 'host-agent', 'cli',
                                      'backtrail')
        self.path = os.path.join(self.folder, 'x.btrail')
        self.other = os.path.join(self.folder, 'y.btrail')
        self.out = os.path.join(self.folder, 'out')
        limits = {'cpu': CPU, 'wall': 10 * CPU, 'memory': MEMORY,
                  'output': OUTPUT}
        self.warm = [warm.Warm(folder, self.backtrail, SANITIZED, leaks,
                               **limits) for leaks in (False, True)]
        tests = os.path.join(folder, 'tests', 'unit')
        self.seeds = []
        for sample in self.samples:
            self.make(os.path.join(tests, 'make-sample'), self.path, sample)
        self.make(os.path.join(tests, 'make-hostile'), self.path,
                  '{"guest": {"name": "x"}}', '1000', *NAMES)
        for path in glob.glob(os.path.join(qemu.TOP, 'tests', 'fuzz', 'seeds',
                                           'trace', '*')):
            with open(path, 'rb') as f:
                data = f.read()
            if traceformat.Trace(data).indexed:
                self.seeds.append(data)

    def make(self, *command):
        if not os.access(command[0], os.X_OK):
            raise campaign.Skip(f'{command[0]} is not built')
        subprocess.run(command, check=True, capture_output=True)
        with open(self.path, 'rb') as f:
            self.seeds.append(f.read())

    def end(self):
        for one in getattr(self, 'warm', ()):
            one.close()

    def files(self):
        return glob.glob(os.path.join(self.folder, '*'))

    def round(self):
        for name in self.files():
            os.unlink(name)
        self.compare(self.make_trace(self.path))
        for command in self.random.sample(READ, 3):
            self.command(*command, self.path)
        kind = self.random.randrange(4)
        if kind == 0:
            self.repair()
        elif kind == 1:
            self.repair_in_place()
        elif kind == 2:
            self.merge()

    def make_trace(self, path):
        """Write a trace; return its bytes."""
        data, done = mutate.mutate(self.random, self.seeds, grow.GROWTHS)
        self.say('; '.join(done))
        with open(path, 'wb') as f:
            f.write(data)
        self.counts['mutations'] += len(done)
        return data

    def command(self, *words, codes=(0, 1, 2, 3), stdin=os.devnull):
        """Run a command; return its status and what it has printed."""
        self.say(' '.join(words))
        self.counts['runs'] += 1
        leaks = self.random.random() < self.leaks
        status, seconds, mib = self.warm[leaks].run(
            words, self.out, self.out + '.err', stdin)
        return self.judge(words, codes, status, seconds, mib, self.out,
                          self.out + '.err')

    def judge(self, words, codes, status, seconds, mib, out, err):
        """Was all right with a command?  Return as command()."""
        with open(out, 'rb') as f:
            printed = f.read()
        with open(err, 'rb') as f:
            said = f.read()
        if status == warm.TOOK_TOO_MUCH:
            raise campaign.Failure(f'{words}: does not end: {seconds:.0f} s, '
                                   f'{mib:.0f} MiB')
        if status not in codes:
            raise campaign.Failure(f'{words}: status {status}: '
                                   f'{said[-3000:]!r}')
        if b'runtime error' in said or b'Sanitizer' in said:
            raise campaign.Failure(f'{words}: {said[-3000:]!r}')
        if status and not said + printed:
            raise campaign.Failure(f'{words}: status {status}, and no word')
        self.printable(words, said)
        if len(printed) >= OUTPUT:
            return status, b''
        if not set(words) & {*BINARY}:
            self.printable(words, printed)
        if '--json' in words and status in (0, 3):
            self.json(words, printed)
        return status, printed

    def printable(self, words, text):
        leaks = hostile.leaks(text, '\n\t')
        if leaks:
            raise campaign.Failure(f'{words}: prints {leaks}')

    def json(self, words, printed):
        def constant(name):
            raise ValueError(name)

        try:
            for one in printed.splitlines() \
                    if words[0] in ('calls', 'find', 'script') and \
                    '--summary' not in words else [printed]:
                json.loads(one, parse_constant=constant)
        except ValueError as e:
            raise campaign.Failure(f'{words}: no JSON: {e}') from None

    def compare(self, data):
        """The reader that is made of the page finds the same."""
        try:
            trace = traceformat.Trace(data)
        except traceformat.Damaged:
            trace = None
        status, printed = self.command('script', '--events', '--json',
                                       self.path)
        if trace is None:
            if status != 1:
                raise campaign.Failure('what is no trace can be read')
            return
        if status not in (0, 2, 3) or \
                len(printed) > COMPARED * 40 or \
                sum(e[8] + e[9] for e in trace.entries) > COMPARED:
            return
        self.compare_items(trace, status, printed)

    def compare_items(self, trace, status, printed):
        start = trace.meta().get('start')
        start = start.get('monotonic') if isinstance(start, dict) else 0
        # What is no time is read as the page leaves open.
        timed = start is None or type(start) is int and 0 <= start < 1 << 62
        want = {}
        for vcpu in trace.vcpus():
            if any(self.damaged(trace, e) for e in trace.entries
                   if e[2:4] == (DATA, vcpu)):
                # What comes before the damage can have been printed.
                if status != 3:
                    raise campaign.Failure(f'vCPU {vcpu} is damaged: status '
                                           f'{status}')
                want[vcpu] = None
            else:
                want[vcpu] = [self.expected(item, timed) for item in
                              trace.stream(vcpu)[0]]
        got = {}
        for line in printed.splitlines():
            vcpu, item = self.parsed(line, start or 0, timed)
            got.setdefault(vcpu, []).append(item)
        for vcpu in want.keys() | got.keys():
            if vcpu not in want:
                raise campaign.Failure(f'vCPU {vcpu} has no stream')
            if want[vcpu] is not None:
                self.same(vcpu, want[vcpu], got.get(vcpu, []))

    def damaged(self, trace, entry):
        try:
            trace.block(*entry)
        except traceformat.Damaged:
            return True
        return False

    def same(self, vcpu, want, got):
        for i, (a, b) in enumerate(itertools.zip_longest(want, got)):
            if a != b:
                raise campaign.Failure(f'item {i} of vCPU {vcpu} is {a} by '
                                       f'the page, and {b} is printed')
        self.counts['items compared'] += len(want)

    def expected(self, item, timed):
        """What is printed of an item of the reader in Python"""
        what, index, host, cr3, *rest = item
        if what == 'record':
            return (index, host if timed else 0, cr3, *rest[:2],
                    rest[2] & 0xffff)
        kind, number, *data = rest
        if kind == GAP and (number in UNSTATED or not host):
            host = cr3 = None
        elif not timed:
            host = 0
        reasons = traceformat.REASONS.get(kind, [])
        reason = reasons[number - 1] if 0 < number <= len(reasons) else \
            OTHERS.get((kind, number), 'unknown')
        if kind == CR3:
            shown = ()
        elif kind == TIME:
            shown = (*data[:2], None if data[2] == MASK else data[2])
        elif kind == GAP:
            shown = (reason, None if data[0] == MASK else data[0])
        elif kind == TASK:
            name = struct.pack('<QQ', *data[1:]).split(b'\0')[0]
            task = None if number & UNKNOWN_TASK else \
                (data[0] & 0xffffffff, data[0] >> 32,
                 bool(number & KERNEL_TASK), hostile.text(name))
            shown = task, self.left(number)
        elif kind == WAKE:
            task = None if number & UNKNOWN_WAKE else \
                (data[0] & 0xffffffff, data[0] >> 32,
                 bool(number & KERNEL_WAKE))
            shown = task, bool(number & NEW_WAKE)
        elif kind == KERNEL:
            nested = bool(number & NESTED)
            shown = None if number & UNKNOWN_KERNEL else \
                (data[0] if data[0] < 1 << 16 else 0, nested,
                 data[1] if nested else None)
        elif kind in traceformat.REASONS:
            shown = (reason, data[0])
        else:
            kind, shown = 'unknown', (kind, number)
        return (index, host, cr3, kind, shown)

    @staticmethod
    def left(flags):
        """Why the task before has left, as far as that is known"""
        blocked = 'interruptible' if flags & 16 else \
            'uninterruptible' if flags & 32 else 'blocked'
        return {0: None, 4: 'runnable', 8: blocked, 12: 'dead'}[flags & 12]

    def parsed(self, line, start, timed):
        """The same of a line; and its vCPU"""
        o = json.loads(line, parse_float=decimal.Decimal)
        host = 0
        if o['time'] is not None and timed:
            host = int(o['time'] * 10 ** 9) + start
        cr3 = traceformat.cr3_of(o)
        if 'event' not in o:
            return o['vcpu'], (o['index'], host, cr3, int(o['from'], 16),
                               int(o['to'], 16), o['flags'])
        kind = traceformat.KINDS.get(o['event'], 'unknown')
        if kind == CR3:
            shown = ()
        elif kind == TIME:
            shown = o['host'], o['tsc'], o.get('icount')
        elif kind == GAP:
            shown = o['reason'], o['lost']
            if o['reason'] in UNSTATED_NAMES or o['time'] is None:
                host = cr3 = None
        elif kind == TASK:
            task = None if o['tid'] is None else \
                (o['tid'], o['pid'], o['kernel'], o['comm'])
            shown = task, o.get('left')
        elif kind == WAKE:
            task = None if o['tid'] is None else \
                (o['tid'], o['pid'], o['kernel'])
            shown = task, o['new']
        elif kind == KERNEL:
            shown = None if o['number'] is None else \
                (o['number'], o['nested'],
                 int(o['root'], 16) if o['nested'] else None)
        elif kind == 'unknown':
            shown = o['type'], o['number']
        else:
            shown = o['reason'], o['host']
        return o['vcpu'], (o['index'], host, cr3, kind, shown)

    def whole(self, path, records):
        """It has nothing to repair, by either reader, and these records.

        verify can still find fault with what the chunks say.
        """
        with open(path, 'rb') as f:
            trace = traceformat.Trace(f.read())
        found = trace.indexed, trace.entries == trace.scan(), \
            sum(e[8] for e in trace.entries if e[2] == DATA)
        if found != (True, True, records):
            raise campaign.Failure(f'the index, all chunks, {records} records '
                                   f'are there after repair: {found}')
        for at, _, kind, *_ in trace.entries:
            trace.whole_chunk(at, kind)
        if records <= COMPARED and any(trace.stream(vcpu)[1] for vcpu in
                                       trace.vcpus()):
            raise campaign.Failure('a repaired trace has holes')
        _, printed = self.command('repair', '--dry-run', '--json', path,
                                  codes=(0,))
        if not json.loads(printed)['files'][0]['whole']:
            raise campaign.Failure('a repaired trace is not whole')
        _, printed = self.command('verify', '--json', path, codes=(0, 3))
        if json.loads(printed)['records'] != records:
            raise campaign.Failure(f'{records} records are kept: {printed!r}')

    def repair(self):
        status, printed = self.command('repair', '--json', '-o', self.other,
                                       self.path)
        if os.path.exists(self.other):
            self.counts['repaired'] += 1
            self.whole(self.other, json.loads(printed)['files'][0]['records'])
        elif status == 3:
            raise campaign.Failure('repair has repaired nothing')

    def repair_in_place(self):
        shutil.copy(self.path, self.other)
        status, printed = self.command('repair', '--json', '--in-place',
                                       self.other)
        with open(self.path, 'rb') as a, open(self.other, 'rb') as b:
            before, after = a.read(), b.read()
        if before != after:
            self.counts['repaired'] += 1
            self.whole(self.other, json.loads(printed)['files'][0]['records'])
        elif status == 3:
            raise campaign.Failure('repair has repaired nothing')

    def merge(self):
        second = os.path.join(self.folder, 'z.btrail')
        data = self.make_trace(second)
        with open(self.path, 'rb') as f:
            ident = f.read()[28:44]
        if len(ident) == 16 and self.random.random() < 0.7:
            # Files of one trace
            head = bytearray(data[:64])
            head[28:44] = ident
            data = bytes(head[:60]) + traceformat.crc32c(
                head[:60]).to_bytes(4, 'little') + data[64:]
            with open(second, 'wb') as f:
                f.write(data)
        status, _ = self.command('merge', '-o', self.other, self.path, second)
        if status in (0, 3):
            self.counts['merged'] += 1
            self.command('verify', '--json', self.other)
        self.command(*self.random.choice(READ), self.path, second)
        self.command('diff', '--json', self.path, second)
