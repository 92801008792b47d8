# SPDX-License-Identifier: GPL-2.0-or-later
"""backtrail find on a trace of a billion records: a part of tests/bench/walk.

A real guest is traced until there are this many records.  In the middle it gets
one NMI, which is what is rare in the trace.  Each search is cold: nothing of
the file is in memory, and a process of its own.  What is found is compared with
what was done to the guest.
"""

import json
import os
import subprocess
import time

import backtrail
import guest
import qemu
import rawtraces

PATIENCE = 1200
RARE = 'exc_nmi'
# Arguments, and what the answer must be
SEARCHES = {
    'rare function': ([RARE, '--json'], 1),
    'rare function, from the end': ([RARE, '--last', '--json'], 1),
    'how often a rare function': ([RARE, '--count'], '1\n'),
    'rare instruction': ([None, '--json'], 1),
    'first of many': (['asm_exc_page_fault', '--limit=1', '--json'], 1),
    'last of many': (['asm_exc_page_fault', '--last', '--json'], 1),
    'callers of a rare function': (['--callers-of=' + RARE, '--json'], None),
}
# All chunks are decoded for these.
SCANS = {
    # The function shares its 64 bytes with one that is executed all the time.
    'rare function beside another': ['asm_exc_nmi', '--json'],
    'how often what all chunks have': ['asm_exc_page_fault', '--count'],
    'who calls what all chunks have': ['--callers-of=handle_mm_fault',
                                       '--json'],
}


def count(vm):
    return sum(v['records'] for v in
               vm.qmp.command('query-branch-trace')['vcpus'])


def cpu_seconds(pid):
    """CPU time of a process and all of its threads"""
    with open(f'/proc/{pid}/stat', encoding='ascii') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf('SC_CLK_TCK')


def record(path, records, say):
    """Trace a guest until there are this many records."""
    args = ['-object', 'memory-backend-memfd,id=ram,size=512M,share=on',
            '-machine', 'pc,memory-backend=ram',
            *guest.args('bt.workload=mixed', memory='512')]
    with qemu.Qemu(['-accel', 'tcg', '-smp', '2', '-device', 'branch-trace',
                    *args], qmp_sockets=2) as vm:
        vm.wait_serial('^BT: pid=', 240)
        with backtrail.Record(vm.qmp_paths[1], path,
                              vm.path('log')) as agent:
            vm.qmp.wait_event('BRANCH_TRACE_STATE', match=lambda data:
                              data['state'] == 'active')
            deadline = time.monotonic() + PATIENCE
            rare = False
            while (made := count(vm)) < records:
                if time.monotonic() > deadline:
                    raise qemu.QemuError(f'only {made} records')
                if not rare and made > records / 2:
                    vm.qmp.command('inject-nmi')
                    rare = True
                time.sleep(0.2)
                say(f'{made / 1e6:.0f} M records')
            seconds = cpu_seconds(agent.process.pid)
            if agent.stop():
                raise qemu.QemuError(agent.output())
    with open(path + '.json', 'w', encoding='ascii') as f:
        json.dump({'agent_cpu_s': seconds, 'records': made}, f)


def forget(path):
    """Have the host's kernel drop the pages of a file."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def run(path, args):
    """Milliseconds, and what is printed"""
    forget(path)
    begin = time.monotonic()
    result = subprocess.run([backtrail.binary(), 'find', *args, path],
                            stdout=subprocess.PIPE, text=True, check=True)
    return (time.monotonic() - begin) * 1e3, result.stdout


def check(name, want, out):
    if isinstance(want, str):
        found = out
    else:
        found = want and len(out.splitlines())
    if found != want:
        raise SystemExit(f'{name}: {out!r}')


def search(path, rounds):
    """{name: milliseconds}, the median of the rounds"""
    _, out = run(path, [RARE, '--no-stack', '--json'])
    address = int(json.loads(out)['to']['address'], 16)
    times = {}
    for _ in range(rounds):
        for name, (args, want) in SEARCHES.items():
            args = [arg or f'*{address:#x}' for arg in args]
            ms, out = run(path, args)
            check(name, want, out)
            times.setdefault(name, []).append(ms)
    return {name: sorted(ms)[len(ms) // 2] for name, ms in times.items()}


def scan(path):
    return {name: run(path, args)[0] for name, args in SCANS.items()}


def footprint(path, build, raw, rounds, say):
    """What footprints cost, in percent of the CPU time of the agent that has
    recorded the trace, and of the bytes of records"""
    subprocess.run(['ninja', '-C', build, 'tests/bench/footprint-bench'],
                   check=True, stdout=subprocess.DEVNULL)
    folder = rawtraces.folders([raw], say=say)[raw]
    result = json.loads(subprocess.run(
        [os.path.join(build, 'tests', 'bench', 'footprint-bench'), folder,
         str(4 * rounds)], check=True, stdout=subprocess.PIPE).stdout)
    with open(path + '.json', encoding='ascii') as f:
        agent = json.load(f)
    more = result['more_cpu_s']
    return {
        'cpu_percent': 100 * (more / result['records']) /
        (agent['agent_cpu_s'] / agent['records']),
        'encoding_percent': 100 * more / result['without']['cpu_s'],
        'bytes_percent': 100 * (result['with']['bytes'] /
                                result['without']['bytes'] - 1),
    }


def trace(args, say):
    """The path of the trace"""
    path = os.path.join(args.folder, 'find.btrail')
    if not os.path.exists(path):
        record(path, args.records, say)
    return path


def measure(args, build, say):
    """The results of this part; its headline is 'find_ms'."""
    path = trace(args, say)
    info = backtrail.run_json('info', path)
    searches = search(path, args.rounds)
    return {
        'records': sum(s['records'] for s in info['streams']),
        'bytes': os.path.getsize(path),
        'searches_ms': searches,
        'scans_ms': scan(path),
        'footprint': footprint(path, build, args.trace, args.rounds, say),
        'find_ms': max(searches.values()),
    }


def show(result):
    print(f"find: {result['records']} records, {result['bytes']} bytes")
    for kind in 'searches_ms', 'scans_ms':
        for name, ms in result[kind].items():
            print(f'{name:32} {ms:8.0f} ms')
    cost = result['footprint']
    print(f"footprints: {cost['cpu_percent']:+.2f}% of the agent's CPU time "
          f"({cost['encoding_percent']:+.2f}% of encoding), "
          f"{cost['bytes_percent']:+.2f}% of the records' bytes")
