# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs of the same programs compared: a part of tests/bench/walk.

The programs run in two guests, with the same number of rounds (see
tests/guest).  The rate is of the records of both traces together, by the wall
clock, the best of the rounds.
"""

import json
import os
import tempfile
import time

import backtrail
import guest
import qemu

PATIENCE = 600
PROGRAMS = 'sorter,packer'
PROGRAM_ROUNDS = 60


def record(path):
    """Record programs of a guest that has booted, until they end."""
    with qemu.Qemu(['-accel', 'tcg', '-device', 'branch-trace',
                    '-object', 'memory-backend-memfd,id=ram,size=256M',
                    '-machine', 'pc,memory-backend=ram',
                    '-device', 'vmcoreinfo',
                    *guest.args(f'bt.workload={PROGRAMS}', 'bt.wait=1',
                                f'bt.rounds={PROGRAM_ROUNDS}')],
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


def measure(args, build, say):
    """The results of this part; its headline is 'diff_mrps'."""
    traces = [os.path.join(args.folder, f'diff-{name}.btrail')
              for name in 'ab']
    result = {}
    for path in traces:
        if not os.path.exists(path):
            say(f'recording {path}')
            record(path)
    for prefix, options in ('user_', ('--user',)), ('', ()):
        seconds, cpu, mib, found = min(
            (compare(*traces, *options) for _ in range(args.rounds)),
            key=lambda run: run[0])
        records = found['records_a'] + found['records_b']
        result |= {f'{prefix}diff_mrps': records / seconds / 1e6,
                   f'{prefix}cpu_s': cpu, f'{prefix}peak_mib': mib}
    return result


def show(result):
    for prefix, what in ('', 'diff'), ('user_', 'diff --user'):
        print(f"{what:32} {result[f'{prefix}diff_mrps']:8.1f} M/s, CPU "
              f"{result[f'{prefix}cpu_s']:.2f} s, "
              f"{result[f'{prefix}peak_mib']:.0f} MiB")
