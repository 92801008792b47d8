# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest whose programs count what they do (tests/integration/counts-guest).

The programs say how often functions were called and by which, in processes and
threads of all kinds, without help of a trace.
"""

import collections
import json
import os
import re
import shutil
import subprocess
import tempfile

import backtrail
import booted
import guest
import qemu
import recorded

SOURCES = os.path.join(qemu.TOP, 'tests', 'integration', 'counts-guest')
TIMEOUT = 240
ATTEMPTS = 5
FEW = 1000                      # records, which need not be of a known process

INIT = '''#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
/bin/busybox mount -t proc proc /proc
echo "BT: ready"
read -r _
/bin/known one "two words"
echo "BT: end $?"
read -r _
/bin/busybox poweroff -f
'''


def build(root):
    """What the guest has for a root file system"""
    for name in ('bin', 'lib64', 'lib/x86_64-linux-gnu', 'dev', 'proc'):
        os.makedirs(os.path.join(root, name))
    with open(f'{root}/init', 'w', encoding='utf-8') as f:
        f.write(INIT)
    os.chmod(f'{root}/init', 0o755)
    shutil.copy('/bin/busybox', f'{root}/bin/busybox')
    shutil.copy('/lib64/ld-linux-x86-64.so.2', f'{root}/lib64/')
    shutil.copy('/lib/x86_64-linux-gnu/libc.so.6',
                f'{root}/lib/x86_64-linux-gnu/')
    # -O1 does not turn calls into jumps but where the source says so.
    gcc = ['gcc', '-O1', '-g', '-Wall', '-Wextra', '-Werror', '-pthread']
    counted = f'{SOURCES}/counted.c'
    for args in (['-o', f'{root}/bin/known', f'{SOURCES}/known.c', counted],
                 ['-static', '-o', f'{root}/bin/execed',
                  f'{SOURCES}/execed.c', counted],
                 ['-shared', '-fPIC', '-o', f'{root}/lib/plugin.so',
                  f'{SOURCES}/plugin.c']):
        subprocess.run(gcc + args, check=True)


def traced():
    """The trace of what the guest does, with names of all that it calls"""
    with tempfile.TemporaryDirectory(prefix='backtrail-') as temporary:
        build(os.path.join(temporary, 'root'))
        initrd = os.path.join(temporary, 'initrd')
        guest.pack(os.path.join(temporary, 'root'), initrd)

        def make(folder):
            shutil.copytree(os.path.join(temporary, 'root'),
                            os.path.join(folder, 'root'), symlinks=True)
            # Names are of what was seen.  The guest does not wait for the agent
            # to run: on a busy host a library is gone before a snapshot is
            # taken.
            for _ in range(ATTEMPTS):
                run(initrd, folder)
                if Counted(folder).is_whole():
                    return
            raise qemu.QemuError('no trace has all names')

        return Counted(recorded.made(make, initrd))


class Counted:
    """A trace of what the guest did, and what it says of that"""

    def __init__(self, folder):
        self.root = os.path.join(folder, 'root')
        self.trace = os.path.join(folder, 'counted.btrail')
        # What each process said of itself
        with open(os.path.join(folder, 'said'), encoding='utf-8') as f:
            self.said = json.load(f)

    def report(self, *args):
        return backtrail.run_json('report', *args, '--sysroot', self.root,
                                  self.trace)

    def is_whole(self):
        """Has everything a name that was called?"""
        rows = self.report('--sort=comm,pid,sym')['rows']
        nobodys = collections.Counter()
        for row in rows:
            if row['pid'] == '?' and row['comm'] != '[kernel]':
                nobodys[row['comm']] += row['records']
        named = {(row['pid'], row['sym']) for row in rows}
        return (max(nobodys.values(), default=0) <= FEW and
                all((str(said['pid']), name) in named for said in self.said
                    for caller, callee, _ in said['calls']
                    for name in (caller, callee)))


def run(initrd, folder):
    """Trace what the guest does, and write what it says of that."""
    args = guest.args()
    args[args.index('-initrd') + 1] = initrd
    machine = ['-accel', 'tcg', '-smp', '2', '-device', 'branch-trace',
               '-object', 'memory-backend-memfd,id=ram,size=256M,share=on',
               '-machine', 'memory-backend=ram', '-device', 'vmcoreinfo',
               *args]
    with booted.running(machine, '^BT: ready', qmp_sockets=2) as vm:
        trace = os.path.join(folder, 'counted.btrail')
        with backtrail.Record(vm.qmp_paths[1], trace, vm.path('log'),
                              '--force', '--names=all') as agent:
            vm.qmp.wait_event('BRANCH_TRACE_STATE',
                              match=lambda d: d['state'] == 'active')
            vm.send_serial('\n')
            vm.wait_serial('^BT: end 0', timeout=TIMEOUT)
            status = agent.stop()
            if status:
                raise qemu.QemuError(agent.output())
        text = vm.serial().replace('\r', '')
    if 'BT: error' in text:
        raise qemu.QemuError(text)
    said = [json.loads(line) for line in
            re.findall('^BT: counts (.*)$', text, re.M)]
    for process in said:
        if process['pid'] == 1:
            process['pid'] = int(re.search(r'^BT: contained (\d+)', text,
                                           re.M)[1])
    with open(os.path.join(folder, 'said'), 'w', encoding='utf-8') as f:
        json.dump(said, f)
