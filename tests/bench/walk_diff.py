#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How fast two traces are compared.

Records two runs of the same programs in two guests, each with --rounds rounds
(see tests/guest), and measures `backtrail diff` of both traces.  The rate is of
the records of both together, by the wall clock, the best of --times.

The last line is the headline: diff_mrps=X cpu_s=X peak_mib=X
"""

import argparse
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'lib'))
import backtrail  # noqa: E402
import guest  # noqa: E402
import qemu  # noqa: E402

PATIENCE = 600


def record(path, programs, rounds):
    """Record programs of a guest that has booted, until they end."""
    with qemu.Qemu(['-accel', 'tcg', '-device', 'branch-trace',
                    '-object', 'memory-backend-memfd,id=ram,size=256M',
                    '-machine', 'pc,memory-backend=ram',
                    '-device', 'vmcoreinfo',
                    *guest.args(f'bt.workload={programs}', 'bt.wait=1',
                                f'bt.rounds={rounds}')],
                   qmp_sockets=2) as vm:
        vm.wait_serial('^BT: ready', PATIENCE)
        with backtrail.Record(vm.qmp_paths[1], path, vm.path('log')) as agent:
            vm.qmp.wait_event('BRANCH_TRACE_STATE',
                              match=lambda d: d['state'] == 'active')
            time.sleep(1)
            vm.send_serial('\n')
            vm.wait(PATIENCE)
            if agent.wait(PATIENCE):
                raise qemu.QemuError(agent.output())


def compare(a, b, *options):
    """Seconds, CPU seconds, MiB, and the result of a comparison"""
    args = [backtrail.binary(), 'diff', '--json', *options, a, b]
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        pid = os.posix_spawn(args[0], args, os.environ, file_actions=[
            (os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - begin
        if os.waitstatus_to_exitcode(status) > 1:
            raise SystemExit(f'{args}: status {status}')
        out.seek(0)
        return (seconds, usage.ru_utime + usage.ru_stime,
                usage.ru_maxrss / 1024, json.load(out))


def diff_mrps(a, b, times=3, options=()):
    """Millions of records a second, of both traces together; CPU seconds and
    MiB of the best run"""
    best = min((compare(a, b, *options) for _ in range(times)),
               key=lambda run: run[0])
    seconds, cpu, mib, result = best
    records = result['records_a'] + result['records_b']
    return records / seconds / 1e6, cpu, mib


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--programs', default='sorter,packer')
    parser.add_argument('--rounds', type=int, default=60)
    parser.add_argument('--times', type=int, default=3)
    parser.add_argument('--folder', help='for the traces')
    args = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix='backtrail-bench-',
                                     dir=args.folder) as scratch:
        traces = [os.path.join(scratch, f'{name}.btrail') for name in 'ab']
        for path in traces:
            record(path, args.programs, args.rounds)
        for options in ((), ('--user',)):
            rate, cpu, mib = diff_mrps(*traces, args.times, options)
            print(f'{" ".join(options) or "all":8} {rate:7.1f} M/s, CPU '
                  f'{cpu:.2f} s, {mib:.0f} MiB')
        rate, cpu, mib = diff_mrps(*traces, args.times)
    print(f'diff_mrps={rate:.1f} cpu_s={cpu:.2f} peak_mib={mib:.0f}')


if __name__ == '__main__':
    main()
