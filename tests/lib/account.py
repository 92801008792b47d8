# SPDX-License-Identifier: GPL-2.0-or-later
"""The account that a guest gives of itself, and the judge who compares the names
in reports of its trace with it.

A name that the account contradicts is wrong.  What has no name is only counted:
a case says how much of that there may be.
"""

import bisect
import collections
import re
import subprocess

import backtrail

KERNEL = '[kernel.kallsyms]'
UNKNOWN = '[unknown]'
CLONE_THREAD = 0x10000
COMM = 15                       # of a thread, in the kernel
SAMPLES = 8                     # of what is wrong, that are kept

Symbol = collections.namedtuple('Symbol', 'address name dso')


def _comm(text):
    """/proc adds to the name of a worker what it works on."""
    return re.sub(r'^(kworker/(?!R-)[^-+]*)[-+].*', r'\1', text)[:COMM]


class Account:
    """What tests/guests/programs/account.c has said, at a time of the host's
    monotonic clock; symbols are those of an earlier one, if it has none"""

    def __init__(self, text, time, symbols=None):
        self.time = time
        texts = {}
        at = 0
        while at < len(text):
            end = text.index(b'\n', at)
            name, size = text[at:end].split()
            at = end + 1 + int(size)
            texts[name.decode()] = text[end + 1:at].decode('latin-1')
        self.mounts = texts['mounts']
        self._read_modules(texts['modules'])
        if symbols:
            self.symbols, self.addresses = symbols.symbols, symbols.addresses
        else:
            self._read_symbols(texts['kallsyms'])
        self._read_threads(texts['threads'])
        self._read_events(texts['boot'] + texts['trace'])

    def _read_modules(self, text):
        """{name: (address, end)}"""
        self.modules = {}
        for line in text.splitlines():
            words = line.split()
            start = int(words[5], 16)
            self.modules[words[0]] = (start, start + int(words[1]))

    def _read_symbols(self, text):
        self.symbols = collections.defaultdict(list)
        low = 1 << 63 if re.search('^[0-9a-f]{16} ', text) else 0xc0000000
        for line in text.splitlines():
            address, _, rest = line.split(' ', 2)
            name, _, module = rest.partition('\t')
            address = int(address, 16)
            if address >= low:          # else an offset into per-CPU data
                self.symbols[address].append(
                    Symbol(address, name, module or KERNEL))
        self.addresses = sorted(self.symbols)

    def address(self, name):
        """Of a symbol of this name, the first one"""
        for address in self.addresses:
            if any(s.name == name for s in self.symbols[address]):
                return address
        raise KeyError(name)

    def _add(self, pid, tid, comm):
        self.pids[tid].add(pid)
        self.comms[tid].add(_comm(comm))

    def _read_threads(self, text):
        self.pids = collections.defaultdict(set)
        self.comms = collections.defaultdict(set)
        for line in text.splitlines():
            m = re.fullmatch(r'(\d+) (\d+) (.*)', line)
            if m and m[3]:              # it may have ended meanwhile
                self._add(int(m[1]), int(m[2]), m[3])

    def _read_events(self, text):
        """What the kernel's own tracer has seen of threads that came"""
        renamed = []
        self.begun = set()
        for line in text.splitlines():
            m = re.search(r'-(\d+) +\[\d+\] .* task_newtask: pid=(\d+) '
                          r'comm=(.*) clone_flags=(\w+) ', line)
            if m:
                parent, tid = int(m[1]), int(m[2])
                pid = tid
                if int(m[4], 16) & CLONE_THREAD and self.pids[parent]:
                    pid = max(self.pids[parent])
                self._add(pid, tid, m[3])
                self.begun.add(tid)
            # Some kernels do not say whose name it is: that of its writer
            m = re.search(r'-(\d+) +\[\d+\] .* task_rename: (?:pid=(\d+) )?'
                          r'oldcomm=(.*) newcomm=(.*) oom_score_adj', line)
            if m:
                renamed.append((int(m[2] or m[1]), m[3], m[4]))
        for tid, old, new in renamed:
            self.comms[tid] |= {_comm(old), _comm(new)}

    def symbol(self, address):
        """What the kernel would print for an address, or None"""
        i = bisect.bisect_right(self.addresses, address) - 1
        if i < 0:
            return None
        found = self.symbols[self.addresses[i]][0]
        module = self.modules.get(found.dso.strip('[]'))
        if module and address >= module[1] and \
                module[0] <= found.address < module[1]:
            return None
        return found

    def knows_task(self, comm, pid, tid):
        """Was there ever such a thread?  What is None is not known."""
        if pid == 0:
            return comm is None or re.fullmatch(r'swapper(/\d+)?', comm)
        if tid is None:
            threads = [t for t, pids in self.pids.items() if pid in pids]
            return threads and (comm is None or any(
                comm in self.comms[t] for t in threads))
        # A thread of the kernel begins as a copy of kthreadd, with its name.
        # The tracer misses some while the kernel boots.
        early = comm == 'kthreadd' and pid == tid and tid not in self.begun
        return tid in self.comms and \
            (comm is None or comm in self.comms[tid] or early) and \
            (pid is None or not self.pids[tid] or pid in self.pids[tid])


class Verdict:
    """What a judge has found: numbers of records, and samples"""

    def __init__(self):
        self.counts = collections.Counter()
        self.wrong = {}         # {what is wrong: [records, sample]}

    def add(self, kind, records, wrong=None, sample=''):
        """kind is 'kernel', 'user' or 'task'; wrong says what is wrong."""
        self.counts[kind] += records
        if wrong:
            self.counts[f'wrong {kind}'] += records
            self.wrong.setdefault(wrong, [0, sample])[0] += records

    def unknown(self, kind, records):
        self.counts[kind] += records
        self.counts[f'unknown {kind}'] += records

    def share(self, kind, of='unknown'):
        """Of the records of this kind, those that are unknown, or wrong"""
        return self.counts[f'{of} {kind}'] / max(1, self.counts[kind])

    def samples(self):
        """Of what is wrong, that of which there is most"""
        most = sorted(((n, wrong, sample)
                       for wrong, (n, sample) in self.wrong.items()),
                      reverse=True)
        return [f'{wrong}{sample} ({n} records)'
                for n, wrong, sample in most[:SAMPLES]]


class Programs:
    """The functions of a program of the guest, as nm has them"""

    def __init__(self, path, dsos):
        self.dsos = dsos
        names = subprocess.run(['nm', '-n', path], capture_output=True,
                               text=True, check=True).stdout
        self.names = collections.defaultdict(set)
        for line in names.splitlines():
            words = line.split()
            if len(words) == 3 and words[1] in 'tTwWi':
                self.names[int(words[0], 16)].add(words[2])
        self.addresses = sorted(self.names)
        # What the linker has made has no symbols, but sections.
        headings = subprocess.run(['readelf', '-SW', path],
                                  capture_output=True, text=True,
                                  check=True).stdout
        self.sections = [
            (m[1], int(m[2], 16), int(m[3], 16)) for m in re.finditer(
                r'\] (\S+) +PROGBITS +(\w+) \w+ (\w+) ', headings)]

    def right(self, address, name):
        if any(name == section and start <= address < start + size
               for section, start, size in self.sections):
            return True
        i = bisect.bisect_right(self.addresses, address) - 1
        return i >= 0 and name in self.names[self.addresses[i]]


class InitCode:
    """Functions that a module has only while it is loaded, as readelf has them:
    no account is of that time"""

    def __init__(self, path, module):
        self.dso = f'[{module}]'
        lines = subprocess.run(['readelf', '-SsW', path], capture_output=True,
                               text=True, check=True).stdout
        section = re.search(r'\[ *(\d+)\] \.init\.text ', lines)[1]
        self.functions = [
            (int(m[1], 16), int(m[2], 0), m[3]) for m in re.finditer(
                r': (\w+) +(\w+) FUNC +\w+ +\w+ +%s (\S+)$' % section, lines,
                re.M)]

    def right(self, address, dso, name):
        """The section begins with a page."""
        return dso == self.dso and any(
            function == name and (address - start) % 4096 < size
            for start, size, function in self.functions)


def window(trace, start, end):
    """--time for what lies between two times of the host, if they are known"""
    if start is None and end is None:
        return []
    # Each moment of a report has both clocks.
    first = backtrail.run_json('report', trace)['spaces'][0]['first']
    zero = first['host'] / 1e9 - first['time']
    a = '' if start is None else f'{max(0, start - zero):.6f}'
    b = '' if end is None else f'{max(0, end - zero):.6f}'
    return ['--time', f'{a}..{b}']


def rows(trace, sort, *options):
    """Lines of a report, none if it has no records"""
    result = backtrail.run('report', '--sort', sort, '--min-share', '0',
                           '--json', *options, trace, check=False)
    if result.returncode == 1 and b'no record' in result.stderr:
        return []
    return backtrail.json.loads(result.stdout)['rows']


def judge(trace, accounts, start=None, end=None, programs=None, init=(),
          options=()):
    """Compare what reports of a trace name between two times of the host's
    clock with accounts: a name must be as one of them has it, or as InitCode
    has it."""
    options = [*options, *window(trace, start, end)]
    verdict = Verdict()
    _judge_tasks(verdict, rows(trace, 'comm,pid,tid', *options), accounts)
    for row in rows(trace, 'dso,sym,from,dso_to,sym_to,to', *options):
        for end_ in '', '_to':
            address = row['from' if not end_ else 'to']
            _judge_symbol(verdict, row['records'], int(address, 16),
                          row[f'dso{end_}'], row[f'sym{end_}'], accounts,
                          programs, init)
    return verdict


def nameless(comm):
    """Is this an address space that is called by its page tables?"""
    return re.fullmatch(r'(cr3|pae|nested):0x[0-9a-f]+', comm) or \
        comm in ('[kernel]', UNKNOWN, '?')


def _judge_tasks(verdict, lines, accounts):
    for row in lines:
        comm, pid, tid = row['comm'], row['pid'], row['tid']
        if nameless(comm):
            comm = None
        pid = int(pid) if pid.isdigit() else None
        tid = int(tid) if tid.isdigit() else None
        if comm is None and pid is None and tid is None:
            verdict.unknown('task', row['records'])
        elif any(a.knows_task(comm, pid, tid) for a in accounts):
            verdict.add('task', row['records'])
        else:
            verdict.add('task', row['records'],
                        f'a task {row["comm"]}, pid {row["pid"]}, '
                        f'tid {row["tid"]}')


def _judge_symbol(verdict, records, address, dso, name, accounts, programs,
                  init):
    kernel = any(address >= (1 << 63 if a.addresses[-1] >> 32 else 0xc0000000)
                 for a in accounts)
    if not kernel:
        if name == UNKNOWN:
            verdict.unknown('user', records)
        elif not programs or dso not in programs.dsos or \
                programs.right(address, name):
            verdict.add('user', records)
        else:
            verdict.add('user', records, f'{name} is another function',
                        f', at {address:#x}')
        return
    if name == UNKNOWN:
        verdict.unknown('kernel', records)
        return
    said = []
    for account in accounts:
        symbol = account.symbol(address)
        if symbol and (symbol.name, symbol.dso) == (name, dso):
            verdict.add('kernel', records)
            return
        if symbol:
            said.append(f'{symbol.name} ({symbol.dso})')
    if any(code.right(address, dso, name) for code in init):
        verdict.add('kernel', records)
        return
    verdict.add('kernel', records, f'{name} ({dso}) is '
                f'{" or ".join(dict.fromkeys(said)) or "nothing"}',
                f', at {address:#x}')
