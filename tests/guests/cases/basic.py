# SPDX-License-Identifier: GPL-2.0-or-later
"""a kernel boots, and runs programs that count what they do"""

import backtrail
import kernels
import snapshots

MODULES = ('tun',)
COUNTED = (r'^BT: counted pid=(\d+) calls=(\d+) getpriority=(\d+) '
           r'ioctls=(\d+)$')


def run(lab, cpu=None, **options):
    modules = MODULES if kernels.has_modules(lab.kernel) else ()
    with lab.guest(modules=modules, cpu=cpu, **options) as g:
        lab.facts['kernel'] = g.release
        if modules:
            g.run('modprobe tun')
        else:
            lab.facts['modules'] = 'the archive has none of this kernel'
        with g.traced('basic.btrail') as trace:
            number = g.begin('counted')
            counted = g.wait(COUNTED)
            g.end(number)
            g.run('seq 2000 | sort -n | md5sum; ls -l /')
        told = g.tell()
        said = g.record.output()
    lab.sound(trace)
    # What the kernel does not have as it is known
    for text in backtrail.run_json('info', trace)['meta'].get(
            'names', {}).get('missing', []):
        lab.check('missing', False, text)
    complaint = said.partition('\n')[2].strip()
    lab.check('names', not complaint, complaint)
    check(lab, trace, told, counted)


def check(lab, trace, told, counted):
    """What a trace with the program counted must show"""
    pid, calls, asked, ioctls = (int(n) for n in counted.groups())
    lab.judge(trace, [told], programs=lab.programs())
    names = {(r['comm'], r['pid']) for r in account_rows(trace)}
    for comm in 'counted', 'computes', 'asks':
        lab.check('threads', (comm, str(pid)) in names,
                  f'no records of {comm}, pid {pid}')
    # Who sleeps runs nowhere, so that one snapshot finds none at times.
    found = snapshots.threads(trace)
    lab.check('threads', any(t.vcpu >= 0 for t in found),
              f'no snapshot says which vCPU runs a thread, of {len(found)}')
    for thread in found:
        lab.check('snapshots', told.knows_task(thread.comm, thread.pid,
                                               thread.tid) or thread.pid == 0,
                  f'a snapshot has {thread}')
    made = {(r['comm'], r['sym']): r['calls'] for r in
            called(trace, '--children')}
    lab.check('calls', made.get(('computes', 'counted_step')) == calls,
              f'counted_step was called {calls} times, not '
              f'{made.get(("computes", "counted_step"))}')
    # It is called by a pointer, which is a jump where there are retpolines.
    times = made.get(('counted', 'tun_chr_ioctl'))
    lab.check('modules', not ioctls or times == ioctls,
              f'tun_chr_ioctl was called {ioctls} times, not {times}')
    made = {(r['comm'], r['sym']): r['calls']
            for r in called(trace, '--syscalls')}
    lab.check('system calls', made.get(('asks', 'getpriority')) == asked,
              f'getpriority was called {asked} times, not '
              f'{made.get(("asks", "getpriority"))}')


def account_rows(trace):
    return backtrail.run_json('report', '--sort', 'comm,pid', '--min-share',
                              '0', trace)['rows']


def called(trace, kind):
    return backtrail.run_json('report', kind, '--min-share', '0',
                              '--comm', 'counted,computes,asks', trace,
                              check=False)['rows']
