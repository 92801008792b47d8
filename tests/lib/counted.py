# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest whose programs count what they do (tests/integration/counts-guest).

The programs say how often functions were called and by which, in processes and
threads of all kinds, without help of a trace.
"""

import json
import os
import re
import shutil
import subprocess

import backtrail
import guest
import qemu

SOURCES = os.path.join(qemu.TOP, 'tests', 'integration', 'counts-guest')
TIMEOUT = 240

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


def run(folder, root, trace):
    """Trace what the guest does; returns what it says of it."""
    initrd = os.path.join(folder, 'initrd')
    guest.pack(root, initrd)
    args = guest.args()
    args[args.index('-initrd') + 1] = initrd
    with qemu.Qemu(['-accel', 'tcg', '-smp', '2', '-device', 'branch-trace',
                    '-object',
                    'memory-backend-memfd,id=ram,size=256M,share=on',
                    '-machine', 'memory-backend=ram', '-device', 'vmcoreinfo',
                    *args], qmp_sockets=2) as vm:
        vm.wait_serial('^BT: ready', timeout=TIMEOUT)
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
        return said
